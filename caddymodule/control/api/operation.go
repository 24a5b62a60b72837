// Package api has what the gate and the clients of its control API share: each
// operation as a row with its types, and the refusals of both sides. The gate
// serves the rows, its OpenAPI document describes them, and package client calls
// them. The tag doc of a member says what it is; null in it is nil in Go.
package api

import "github.com/caddy-tollgate/tollgate/internal/apierror"

// Operation is one operation of the control API. In has the parameters of a
// request, with the tags path and query, and its body in the field Body. Out is
// the body of the answer. Programs use package client, which has a method for each.
type Operation[In, Out any] struct {
	// ID names the operation in the OpenAPI document.
	ID string
	// Method and Path are the request. Path has the parameters of In in braces.
	Method, Path string
	// Tag is the group of the operation in the document.
	Tag string
	// Summary and Description tell people what it does.
	Summary, Description string
	// Status is that of a success, if it is neither 200 nor 204.
	Status int
	// Errors are the statuses of refusals that other operations do not have.
	Errors []int
}

// None is the In of an operation without parameters, and the Out of one whose
// answer has no body.
type None struct{}

// Error is a refusal of the gate, with a code for programs: see errors.As.
type Error = apierror.Error
