package currency

// Table has every currency, active or retired.
var Table = table
