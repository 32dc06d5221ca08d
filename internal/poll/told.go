package poll

import "context"

// Told remembers the error of the last pass of a daemon, so that its log does not repeat the same one with every pass.
type Told struct{ last string }

// IsNew reports whether err is another error than that of the last pass. A pass without an error forgets the last one. Errors after the end
// of ctx are not new.
func (t *Told) IsNew(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		t.last = ""
	case ctx.Err() == nil && err.Error() != t.last:
		t.last = err.Error()
		return true
	}
	return false
}
