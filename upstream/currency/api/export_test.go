package api

// Route is an endpoint.
type Route struct{ Method, Path string }

// Routes returns the endpoints in the order of the reference.
func Routes() []Route {
	var routes []Route
	for _, o := range operations() {
		if o.Tags[0] == tagCurrencies {
			routes = append(routes, Route{o.Method, o.Path})
		}
	}
	return routes
}
