package install

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/hooks/hook"
	_ "github.com/sealift/sealift/internal/testing/usualhost"
)

// TestAddOnSetsHookSilenceTimeout has one add-on whose silent hook is within its own bound, and one whose hook is not.
func TestAddOnSetsHookSilenceTimeout(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var addOns []addOn
	for name, a := range map[string]addOn{
		"patient": {meta: catalog.Meta{Silence: 20 * time.Second}, hooks: []string{"patient_outro"}},
		"hasty":   {meta: catalog.Meta{Silence: time.Second}, hooks: []string{"hasty_outro"}},
		"usual":   {hooks: []string{"usual_outro"}},
	} {
		a.info = bundle.PackageInfo{Name: name, Version: "1"}
		dir := filepath.Join(root, a.info.Dir())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "install.sh"), []byte(name+"_outro() { sleep ${SECONDS_OF_"+name+":-0}; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		addOns = append(addOns, a)
	}
	h := newHooks(root, addOns, map[string]string{"DIR": root, "SECONDS_OF_patient": "3", "SECONDS_OF_hasty": "600"}, io.Discard)
	t.Cleanup(func() { _ = h.close() })
	for _, function := range []string{"patient_outro", "usual_outro"} {
		if _, err := h.call(t.Context(), function); err != nil {
			t.Errorf("%s: %v", function, err)
		}
	}
	stopped := new(hook.SilenceError)
	if _, err := h.call(t.Context(), "hasty_outro"); !errors.As(err, &stopped) || stopped.Silence != time.Second {
		t.Errorf("a hook that is silent for too long: %v", err)
	}
	if got := h.silence("usual_outro"); got != hookSilence {
		t.Errorf("without a declaration it is %s", got)
	}
}
