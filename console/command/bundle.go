package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/plaintext"
)

// verifyTime is the timeout of the verification of a bundle: 100 GB from a slow disk.
const verifyTime = time.Hour

// ErrNoKey means that root has not said which keys sign bundles.
var ErrNoKey = errors.New("no key is set up that bundles must be signed with; root on this node runs: sealift-console on --bundle-key FILE")

// Verify reads every byte of an uploaded bundle, and reports who signed it. One that is damaged, that none of the keys signed, or that is
// not a bundle is an error, in the words of 'sealift verify'.
func (r *Reader) Verify(ctx context.Context, file string, keys []string) (v upload.Verdict, err error) {
	if len(keys) == 0 {
		return v, ErrNoKey
	}
	words := []string{"verify", file}
	for _, key := range keys {
		words = append(words, "--key", key)
	}
	var verified struct {
		Digest string `json:"digest"`
		Trust  struct {
			Signer string `json:"signer"`
		} `json:"trust"`
	}
	if err := r.about(ctx, file, words, &verified); err != nil {
		return v, err
	}
	var inspected struct {
		Kind string `json:"kind"`
	}
	if err := r.about(ctx, file, []string{"inspect", file}, &inspected); err != nil {
		return v, err
	}
	if inspected.Kind != "bundle" {
		return v, fmt.Errorf("it is a %s, and an upgrade needs a bundle; make one with 'sealift bundle'", plaintext.Line(inspected.Kind))
	}
	return upload.Verdict{Digest: plaintext.Line(verified.Digest), Signer: plaintext.Line(verified.Trust.Signer)}, nil
}

// about runs a command about an uploaded file, whose name people do not know.
func (r *Reader) about(ctx context.Context, file string, words []string, into any) error {
	d := r.read(ctx, verifyTime, words)
	err := d.Decode(into)
	if err != nil && d.Said != "" {
		return errors.New(strings.ReplaceAll(strings.TrimSpace(d.Said), file, "the bundle"))
	}
	return err
}

// Once returns what a command with -o json prints, and keeps nothing: for commands about one of many files.
func (r *Reader) Once(ctx context.Context, words ...string) Document {
	one := &run{done: make(chan struct{})}
	r.fill(ctx, one, words)
	return one.document
}
