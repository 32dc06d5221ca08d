package kind

import (
	"fmt"
	"path/filepath"

	"github.com/sealift/sealift/builder/lock"
)

// Pins is what a resolution takes from a lock instead of asking for it. The zero value takes nothing.
type Pins struct {
	Lock lock.Lock
	Only bool // refuse what is not in the lock
}

// missingError says that a strict build needs what its lock lacks.
type missingError struct {
	dir  string
	what string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s is not in %s", e.what, filepath.Join(e.dir, lock.FileName))
}

// Hint says what to do next.
func (e *missingError) Hint() string { return "lock it with sealift lock " + e.dir }

// missing is an error if nothing may be asked for beyond the lock.
func (r *resolving) missing(format string, args ...any) error {
	if !r.pins.Only {
		return nil
	}
	return &missingError{dir: r.addOn.Named, what: fmt.Sprintf(format, args...)}
}
