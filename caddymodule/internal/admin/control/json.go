package control

import (
	"encoding/json"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// strictJSON reads only what every parser reads alike (RFC 8259, section
// 4; RFC 7493) and writes as encoding/json does. A member name in another
// case is unknown: huma's validation accepts it, and decoding would drop
// the member.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error { return decode("the body", data, v) },
}

// decode is how all handlers read JSON.
var decode = apierror.Decode
