package store

import "time"

// Account is a customer of the API. Its calls count together.
type Account struct {
	ID   string `cbor:"-" json:"id"`
	Plan string `cbor:"1,keyasint" json:"plan"`
	// Label is for people, such as an e-mail address or a company name. At
	// most MaxLabel characters.
	Label     string    `cbor:"2,keyasint,omitempty" json:"label,omitempty"`
	Disabled  bool      `cbor:"3,keyasint,omitempty" json:"disabled,omitempty"`
	CreatedAt time.Time `cbor:"4,keyasint" json:"created_at"`
	Terms
	// Declared tells that the configuration file has the account: only a load
	// of a configuration changes its plan, label and Disabled. Nothing deletes it.
	Declared bool `cbor:"6,keyasint,omitempty" json:"declared,omitempty"`
}
