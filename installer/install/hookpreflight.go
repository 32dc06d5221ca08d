package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/preflight"
)

// preflightsHook ends the name of the hook that an add-on has for checks which need more than a file: it prints the paths of
// specifications that it wrote or chose, one a line, and fails on a host that it can do nothing with.
const preflightsHook = "_preflights"

// askedAddOns returns the add-ons with such a hook.
func (c *contents) askedAddOns() []addOn {
	return slices.DeleteFunc(slices.Clone(c.addOns), func(a addOn) bool { return !a.hasHook(a.name() + preflightsHook) })
}

// askHooks runs those hooks. Nothing is installed on the host yet, and nothing may be: they find the small files of their
// add-on in a temporary folder, but no images and no host packages. A hook that fails is a failed check, and what one warns of is a warning.
func (i *Install) askHooks(ctx context.Context) (specs []preflight.Specification, said []preflight.Result, err error) {
	asked := i.askedAddOns()
	if len(asked) == 0 {
		return nil, nil, nil
	}
	dir, err := files.MkdirTemp(i.temporary(), ".sealift-preflight-")
	if err != nil {
		return nil, nil, fmt.Errorf("make room for the checks of add-ons: %w", err)
	}
	defer func() { err = errors.Join(err, files.RemoveAll(dir)) }()
	if err := i.extractTexts(ctx, dir, asked); err != nil {
		return nil, nil, fmt.Errorf("extract the checks of add-ons from the bundle: %w", err)
	}
	there := i.job
	there.options.Root = dir
	variables := there.variables()
	variables["SEALIFT_BIN"] = i.options.Binary
	h := newHooks(dir, asked, variables, io.Discard) // a log would be a change; a hook's output is in its error
	defer func() { err = errors.Join(err, h.close()) }()
	for _, a := range asked {
		check := a.name() + ": " + a.name() + preflightsHook
		found, warnings, err := h.preflights(ctx, a)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		for _, text := range i.masked(warnings) {
			said = append(said, preflight.Result{Check: check, Status: preflight.Warn, Message: text, Hint: "see what the add-on wants; it is installed all the same"})
		}
		if err != nil {
			said = append(said, preflight.Result{Check: check, Status: preflight.Fail, Message: hookRefusal(err),
				Hint: "see what the add-on wants; --exclude-builtin-host-preflights goes on without the checks of add-ons"})
		}
		specs = append(specs, found...)
	}
	return specs, said, nil
}

// masked returns the lines of a text, without secrets.
func (j *job) masked(text string) (lines []string) {
	if text == "" {
		return nil
	}
	redactor, out := redact.New(), new(strings.Builder)
	redactor.Hide(j.secrets()...)
	if redactor.Copy(out, strings.NewReader(text)) != nil {
		return nil // which no builder causes
	}
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// hookRefusal is the message of a hook that refused the host. If the hook failed in another way, it is all that is known about the
// failure.
func hookRefusal(err error) string {
	var failed *hook.Error
	if errors.As(err, &failed) && failed.Place == "" && failed.Output != "" {
		return strings.TrimPrefix(strings.TrimSpace(failed.Output), "failed: ")
	}
	return err.Error()
}

func (c *contents) extractTexts(ctx context.Context, dir string, addOns []addOn) error {
	root, err := files.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.archive.Extract(ctx, root, func(e bundle.Entry) bool {
		return slices.ContainsFunc(addOns, func(a addOn) bool { return a.isText(e) })
	}), root.Close())
}

// preflights calls the hook of an add-on and reads the specifications whose paths it prints, and what it warns of, one a line.
func (h *hooks) preflights(ctx context.Context, a addOn) (specs []preflight.Specification, warnings string, err error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(shortTime))
	defer cancel()
	if err := h.start(ctx); err != nil {
		return nil, "", err
	}
	if err := h.shell.Call(ctx, "sealift_preflights", a.name()); err != nil {
		h.shell = nil // it ended with the failure, which shows what it warned of
		return nil, "", err
	}
	warned, err := regularfile.ReadFile(filepath.Join(h.root, "warnings"))
	if err != nil {
		return nil, "", err
	}
	printed, err := regularfile.ReadFile(filepath.Join(h.root, "preflights"))
	if err != nil {
		return nil, "", err
	}
	for name := range strings.FieldsSeq(string(printed)) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(h.root, name)
		}
		text, err := regularfile.ReadFile(name)
		if err != nil {
			return nil, "", fmt.Errorf("%s%s is to print the paths of specifications alone: %w", a.name(), preflightsHook, err)
		}
		specs = append(specs, preflight.Specification{Name: a.name(), Kind: preflight.HostPreflight, Text: text})
	}
	return specs, string(warned), nil
}
