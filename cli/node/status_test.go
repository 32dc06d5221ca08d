package node

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

func TestNonRootUserIsToldToUseSudo(t *testing.T) {
	denied := fmt.Errorf("read the journal: %w", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission})
	if got := forRoot(denied); !errors.Is(got, fs.ErrPermission) || !strings.HasSuffix(got.Error(), "permission denied; run the command with sudo") {
		t.Errorf("got %v", got)
	}
	if twice := forRoot(forRoot(denied)); strings.Count(twice.Error(), "sudo") != 1 {
		t.Errorf("got %v", twice)
	}
	if lines := forRoot(fmt.Errorf("%w\nnothing was changed", denied)); !strings.HasSuffix(lines.Error(), "permission denied\nnothing was changed\nrun the command with sudo") {
		t.Errorf("got %v", lines)
	}
	if other := errors.New("damaged"); !errors.Is(forRoot(other), other) || forRoot(other).Error() != "damaged" {
		t.Errorf("got %v", forRoot(other))
	}
}
