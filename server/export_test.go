package server

// Routes lists the routes as "METHOD /path".
func Routes() []string {
	var all []string
	for _, r := range (&Server{metrics: newMetrics()}).routes() {
		all = append(all, r.method+" "+r.pattern)
	}
	return all
}
