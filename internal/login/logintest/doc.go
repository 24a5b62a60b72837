// Package logintest has what the tests of login limiters share.
package logintest
