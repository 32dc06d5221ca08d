package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// spec is a test in a report of Ginkgo, or a part of the suite that runs before or after the tests.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
}

// name is the full name of a test, which --focus and --skip match.
func (s spec) name() string {
	texts := s.ContainerHierarchyTexts
	if s.LeafNodeText != "" {
		texts = append(slices.Clip(texts), s.LeafNodeText)
	}
	return strings.Join(texts, " ")
}

// isTest distinguishes a test from setup and cleanup.
func (s spec) isTest() bool { return s.LeafNodeType == "It" }

// failed reports whether a test or a part of the suite failed.
func (s spec) failed() bool {
	switch s.State {
	case "failed", "panicked", "aborted", "interrupted", "timedout":
		return true
	}
	return false
}

// reason is the message of a failure or of a skip, with its position in the source.
func (s spec) reason() string {
	text := strings.TrimSpace(s.Failure.Message)
	if text == "" {
		text = s.State
	}
	if s.Failure.Location.FileName != "" {
		text += fmt.Sprintf("\nat %s:%d", s.Failure.Location.FileName, s.Failure.Location.LineNumber)
	}
	return text
}

// readReport calls each for everything in a JSON report of Ginkgo. Such a report has thousands of tests, including those that
// did not run. No more than one of them is in memory.
func readReport(in io.Reader, each func(spec)) error {
	d := json.NewDecoder(in)
	if err := expect(d, '['); err != nil {
		return err
	}
	for d.More() {
		if err := expect(d, '{'); err != nil {
			return err
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if key == "SpecReports" {
				err = readSpecs(d, each)
			} else {
				err = d.Decode(new(json.RawMessage))
			}
			if err != nil {
				return err
			}
		}
		if err := expect(d, '}'); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func readSpecs(d *json.Decoder, each func(spec)) error {
	begin, err := d.Token()
	if err != nil || begin == nil { // a suite without tests has null
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("SpecReports is %v, not a list", begin)
	}
	for d.More() {
		var s spec
		if err := d.Decode(&s); err != nil {
			return err
		}
		each(s)
	}
	return expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("found %v at byte %d, want %v", got, d.InputOffset(), want)
	}
	return nil
}

// tag is in the name of each conformance test, and serial in the names of those that need the cluster for themselves.
const (
	tag    = "[Conformance]"
	serial = "[Serial]"
)

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// maxID keeps names of folders readable. The digest behind it keeps them different.
const maxID = 80

// testID makes the name of a folder out of a test's name. It is the same in every run.
func testID(name string) string {
	sum := sha256.Sum256([]byte(name))
	id := strings.Trim(notInID.ReplaceAllString(strings.ToLower(strings.ReplaceAll(name, tag, "")), "-"), "-")
	return strings.Trim(id[:min(len(id), maxID)], "-") + "-" + hex.EncodeToString(sum[:4])
}
