package caddymodule

// Webhook posts events to an HTTP server, as Standard Webhooks
// (https://www.standardwebhooks.com). An event is posted at least once: the
// store keeps it until the server answers with 2xx. The server recognizes
// repetitions by the header webhook-id.
type Webhook struct {
	// URL is where events are posted to. Required. Redirects are not
	// followed.
	URL string `json:"url,omitempty"`

	// Secret signs the events: whsec_ and 24 to 64 bytes in Base64.
	// Required. Placeholders such as {env.TOLLGATE_WEBHOOK_SECRET} are
	// resolved when the configuration is loaded.
	Secret string `json:"secret,omitempty"`

	// Events are the types of the events to post, such as
	// tollgate.quota_exceeded. Default: all.
	Events []string `json:"events,omitempty"`
}

// webhook parses
//
//	webhook <url> {
//		secret <whsec_...>
//		events <name>...
//	}
func (p *parser) webhook(args []string) error {
	w := &Webhook{URL: args[0]}
	p.app.Webhook = w
	return p.block("webhook ", map[string]option{
		"secret": {syntax: "secret <whsec_...>", args: 1, parse: setText(&w.Secret)},
		"events": {syntax: "events <names...>", args: someArgs, parse: func(names []string) error {
			w.Events = names
			return nil
		}},
	})
}
