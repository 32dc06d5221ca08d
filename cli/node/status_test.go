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
	if other := errors.New("damaged"); !errors.Is(forRoot(other), other) || forRoot(other).Error() != "damaged" {
		t.Errorf("got %v", forRoot(other))
	}
}
