package backup

// MaxLine is maxLine, for tests.
const MaxLine = maxLine
