package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/operator/binding"
)

const (
	// conversionSize bounds a ConversionReview, which may hold a whole list of objects.
	conversionSize = 64 << 20
	// conversionTime is how long the API server waits for a conversion.
	conversionTime = 30 * time.Second
)

// conversion is a step between two versions that a hook can do.
type conversion struct {
	hook    *Hook
	binding *binding.Conversion
	step    binding.Step
}

// conversionRequest is the request of a ConversionReview.
type conversionRequest struct {
	UID     types.UID         `json:"uid"`
	Desired string            `json:"desiredAPIVersion"`
	Objects []json.RawMessage `json:"objects"`
}

type conversionResponse struct {
	UID     types.UID         `json:"uid"`
	Objects []json.RawMessage `json:"convertedObjects"`
	Result  metav1.Status     `json:"result"`
}

// converted is a hook's response in $CONVERSION_RESPONSE_PATH.
type converted struct {
	Objects []json.RawMessage `json:"convertedObjects"`
	Failed  string            `json:"failedMessage"`
}

// failedHook is why a hook failed. It is only for the log: it quotes the hook's output, which every reader of an object would
// see.
type failedHook struct{ error }

func (f *failedHook) Unwrap() error { return f.error }

// convert answers a ConversionReview.
func (s *Server) convert(w http.ResponseWriter, req *http.Request, body []byte) {
	crd := strings.TrimPrefix(req.URL.Path, "/")
	steps := s.routes.Load().conversions[crd]
	if steps == nil {
		http.NotFound(w, req)
		return
	}
	r, uid := readReview(w, req, body)
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), conversionTime, fmt.Errorf("the conversion took longer than %s", conversionTime))
	defer cancel()
	var request conversionRequest
	objects, err := []json.RawMessage(nil), json.Unmarshal(r.Request, &request)
	if err == nil {
		objects, err = walk(ctx, steps, request)
	}
	response := conversionResponse{UID: uid, Objects: objects, Result: metav1.Status{Status: metav1.StatusSuccess}}
	if err != nil {
		s.log.ErrorContext(ctx, "objects are not converted", "crd", crd, "to", request.Desired, "error", err)
		if failed := (*failedHook)(nil); errors.As(err, &failed) {
			err = fmt.Errorf("Hook failed to convert to %s", request.Desired) // upstream's words
		}
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	r.answer(w, response)
}

// walk converts objects, step by step, until all have the requested version. Each step gets the objects of one
// version. They keep their order.
func walk(ctx context.Context, steps []*conversion, request conversionRequest) ([]json.RawMessage, error) {
	objects := slices.Clone(request.Objects)
	for range len(objects)*len(steps) + 1 {
		versions, err := versionsOf(objects)
		if err != nil {
			return nil, err
		}
		next := slices.IndexFunc(versions, func(version string) bool { return version != request.Desired })
		if next < 0 {
			return objects, nil
		}
		way := path(steps, versions[next], request.Desired)
		if way == nil {
			return nil, fmt.Errorf("no hook converts %s to %s", versions[next], request.Desired)
		}
		var at []int
		for i, version := range versions {
			if version == versions[next] {
				at = append(at, i)
			}
		}
		if err := way[0].convert(ctx, objects, at, request); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("conversion to %s has a cycle", request.Desired)
}

// convert runs the hook of a step for the objects at some indexes.
func (c *conversion) convert(ctx context.Context, objects []json.RawMessage, at []int, request conversionRequest) error {
	request.Objects = nil
	for _, i := range at {
		request.Objects = append(request.Objects, objects[i])
	}
	review, err := json.Marshal(map[string]conversionRequest{"request": request})
	if err != nil {
		return err
	}
	b := c.binding
	written, err := c.hook.Run(ctx, binding.Context{
		Type: binding.OnConversion, Binding: b.Name, Group: b.Group, Include: b.Include, Review: review,
		FromVersion: c.step.From, ToVersion: c.step.To,
	})
	if err != nil {
		return &failedHook{err}
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("hook %s, from %s to %s: %w", c.hook.Name, c.step.From, c.step.To, fmt.Errorf(format, args...))
	}
	var answer converted
	switch err := json.NewDecoder(bytes.NewReader(written)).Decode(&answer); { // of several documents the first counts, as upstream
	case len(strings.TrimSpace(string(written))) == 0:
		return fail("it wrote nothing to $CONVERSION_RESPONSE_PATH; write {\"convertedObjects\": […]} or {\"failedMessage\": \"…\"}")
	case err != nil:
		return fail("its response in $CONVERSION_RESPONSE_PATH is invalid: %w", err)
	case answer.Failed != "":
		return errors.New(answer.Failed)
	case len(answer.Objects) != len(at):
		return fail("it returned %d objects instead of %d", len(answer.Objects), len(at))
	}
	before, _ := versionsOf(request.Objects)
	after, err := versionsOf(answer.Objects)
	if err != nil {
		return fail("%w", err)
	}
	for i, object := range answer.Objects {
		if after[i] == before[0] {
			return fail("convertedObjects[%d] still has the version %s", i, after[i])
		}
		objects[at[i]] = object
	}
	return nil
}

func versionsOf(objects []json.RawMessage) ([]string, error) {
	versions := make([]string, len(objects))
	for i, object := range objects {
		var kind struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := json.Unmarshal(object, &kind); err != nil || kind.APIVersion == "" {
			return nil, fmt.Errorf("object %d has no apiVersion", i)
		}
		versions[i] = kind.APIVersion
	}
	return versions, nil
}

// path finds the fewest steps from a version to another, both with their group, or nil. Steps may be spelled without the group;
// of two equal steps, the one with the group is used.
func path(steps []*conversion, from, to string) []*conversion {
	group, _, _ := strings.Cut(to, "/")
	full := func(version string) string {
		if strings.Contains(version, "/") {
			return version
		}
		return group + "/" + version
	}
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b *conversion) int { return spelled(b.step) - spelled(a.step) })
	came := map[string]*conversion{from: nil}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, c := range steps {
			next := full(c.step.To)
			if _, seen := came[next]; seen || full(c.step.From) != queue[0] {
				continue
			}
			came[next] = c
			queue = append(queue, next)
		}
	}
	var way []*conversion
	for at := to; came[at] != nil; at = full(came[at].step.From) {
		way = append(way, came[at])
	}
	slices.Reverse(way)
	return way
}

// spelled counts the versions of a step that are written with their group.
func spelled(s binding.Step) int { return strings.Count(s.From, "/") + strings.Count(s.To, "/") }
