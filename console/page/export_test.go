package page

import "github.com/sealift/sealift/console/access"

// Route is a route for tests.
type Route struct {
	Method, Pattern string
	Right           access.Right
}

// Routes lists everything that a console serves.
func (s *Site) Routes() (all []Route) {
	for _, r := range s.routes() {
		all = append(all, Route{r.Method, r.Pattern, r.Right})
	}
	return all
}
