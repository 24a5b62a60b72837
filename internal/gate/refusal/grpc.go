package refusal

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// grpcType is the prefix of the Content-Type of gRPC. gRPC-Web has the same
// prefix and is another protocol: its clients read the status of HTTP, so
// they get the same refusal as other clients.
const grpcType = "application/grpc"

// isGRPC reports whether the Content-Type is that of gRPC. It does not
// look at the version of HTTP.
func isGRPC(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) == 0 || len(values[0]) < len(grpcType) || !strings.EqualFold(values[0][:len(grpcType)], grpcType) {
		return false
	}
	rest := values[0][len(grpcType):]
	return rest == "" || rest[0] == '+' || rest[0] == ';' || rest[0] == ' '
}

// grpc is the refusal as "Trailers-Only" of gRPC: HTTP 200, no body, and
// the status in the headers. Without it, a gRPC client takes the refusal
// for UNAVAILABLE, and may send the call again.
func (f *Refusal) grpc() form {
	return form{status: http.StatusOK, fields: []field{
		{"Content-Type", grpcType},
		{"Grpc-Status", strconv.Itoa(grpcStatus(f.Status))},
		{"Grpc-Message", grpcMessage(f.Message)},
	}}
}

// grpcStatus returns the gRPC status for an HTTP status. For a 4xx only
// RESOURCE_EXHAUSTED asks the client to retry.
func grpcStatus(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return 3 // INVALID_ARGUMENT
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return 12 // UNIMPLEMENTED
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 14 // UNAVAILABLE
	}
	return 2 // UNKNOWN
}

// grpcMessage encodes a message for the header Grpc-Message: gRPC allows
// printable ASCII without the percent sign, and percent-encodes the rest.
func grpcMessage(message string) string {
	var b strings.Builder
	for i := range len(message) {
		if c := message[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", message[i])
	}
	return b.String()
}
