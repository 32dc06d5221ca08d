package kube_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/kube"
)

var nodeResource = schema.GroupResource{Resource: "nodes"}

// TestPollEndsWithPermanentErrors returns the same error on each attempt, with a total of ten minutes.
func TestPollEndsWithPermanentErrors(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		ends time.Duration
	}{
		"a removed node":                    {apierrors.NewNotFound(nodeResource, "host-1"), 0},
		"an invalid object":                 {apierrors.NewBadRequest("no such field"), 0},
		"an error of another kind":          {errors.New("annotation sealift.dev/report: not JSON"), 0},
		"a client without rights":           {apierrors.NewForbidden(nodeResource, "host-1", nil), 2 * time.Minute},
		"a client that is not known":        {apierrors.NewUnauthorized("who is it"), 2 * time.Minute},
		"a server with a stranger's key":    {&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, 2 * time.Minute},
		"nobody listens":                    {syscall.ECONNREFUSED, 10 * time.Minute},
		"a server that is busy":             {apierrors.NewTooManyRequests("busy", 1), 10 * time.Minute},
		"what is waited for is not there":   {kube.NotYet(errors.New("the Pod still runs")), 10 * time.Minute},
		"a removed node that may come back": {kube.NotYet(apierrors.NewNotFound(nodeResource, "host-1")), 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				began := time.Now()
				err := kube.Poll(ctx, time.Second, func(context.Context) error { return fmt.Errorf("ask: %w", row.err) })
				if took := time.Since(began); took != row.ends {
					t.Errorf("it ended after %s, want %s", took, row.ends)
				}
				if !errors.Is(err, row.err) {
					t.Errorf("the error is lost: %v", err)
				}
				if told := strings.Contains(err.Error(), "gave up after 10m0s"); told != (row.ends == 10*time.Minute) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestPollForgetsEndedRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := kube.Poll(t.Context(), time.Minute, func(context.Context) error {
			if asked++; asked == 10 {
				return nil
			}
			if asked%2 == 0 {
				return syscall.ECONNREFUSED
			}
			return apierrors.NewUnauthorized("the server has just started")
		})
		if err != nil || asked != 10 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

func TestPollEndsWhenItIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(reason) })
		err := kube.Poll(ctx, 10*time.Second, func(ctx context.Context) error { return errors.Join(ctx.Err(), syscall.ECONNREFUSED) })
		if err != reason { //nolint:errorlint // and nothing else
			t.Errorf("got %v", err)
		}
	})
}

func TestPollWaitsAsLongAsServersAsk(t *testing.T) {
	for seconds, want := range map[int]time.Duration{30: 30 * time.Second, 86400: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			asked, began := 0, time.Now()
			err := kube.Poll(t.Context(), time.Second, func(context.Context) error {
				if asked++; asked == 2 {
					return nil
				}
				return apierrors.NewTooManyRequests("busy", seconds)
			})
			if took := time.Since(began); err != nil || took != want {
				t.Errorf("asked for %d s: after %s: %v", seconds, took, err)
			}
		})
	}
}
