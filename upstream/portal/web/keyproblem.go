package web

import (
	"errors"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// refuse keeps the first problem.
func (f *keyForm) refuse(field, problem string) {
	if f.Problem == "" {
		f.Field, f.Problem = field, problem
	}
}

// refused tells whether an error is a refusal of the gate that is about a
// field.
func (f *keyForm) refused(err error) bool {
	if refused, ok := errors.AsType[*apierror.Error](err); ok {
		f.Field, f.Problem = keyProblem(refused)
	}
	return f.Problem != ""
}

// keyProblem returns the field that the gate refuses and the text for it. The
// text is empty for a refusal that our forms cannot cause.
func keyProblem(refused *apierror.Error) (field, problem string) {
	switch refused.Code {
	case "invalid_name":
		return "name", "Give the key a name of 1 to 64 characters, all of them visible."
	case "name_taken":
		return "name", "You have a key with this name. Choose another name, or rotate or revoke that key."
	case "key_replaced":
		return "expires", "This key was rotated, and cannot expire later. Edit the key that replaces it."
	case "too_many_keys":
		return "name", "You have 100 keys, the maximum. Revoke a key first."
	case "not_entitled":
		return "abilities", "Your plan does not have all of these endpoints. Choose again."
	case "plan_required":
		return "name", "Your plan has no access to the API yet."
	case "invalid_address":
		return "addresses", "An address is not valid. Use addresses such as 203.0.113.7, and networks such as 203.0.113.0/24."
	case "unknown_endpoint":
		return "limits", "A limit is for an endpoint that the API no longer has. Choose “remove this limit”."
	}
	return "", ""
}
