package api

// Route is an endpoint.
type Route struct{ Method, Path string }

// Routes returns the endpoints in the order of the reference.
func Routes() []Route {
	var routes []Route
	for _, e := range endpoints() {
		routes = append(routes, Route{e.operation.Method, e.operation.Path})
	}
	return routes
}
