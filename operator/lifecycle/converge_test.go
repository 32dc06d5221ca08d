package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/module"
)

// paused are no releases. A test says when they are listed, and whether that fails.
type paused struct {
	Releases

	asked  chan struct{}
	answer chan error
}

func (p paused) List(ctx context.Context) (map[string]helm.Record, error) {
	select {
	case p.asked <- struct{}{}:
		return nil, <-p.answer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestHooksDoNotRestartReload: a reload that hooks ask for follows the one that runs, unless that fails. Administrators do not wait.
func TestHooksDoNotRestartReload(t *testing.T) {
	log, releases := &fixture.Buffer{}, paused{asked: make(chan struct{}), answer: make(chan error)}
	o := &Operator{
		options: Options{Releases: releases}, log: slog.New(slog.NewTextHandler(log, nil)),
		engine: engine.New(engine.Options{Modules: true}), telemetry: newTelemetry(""), store: newStore(&module.Found{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { o.engine.Queues().Run(ctx); close(over) }()
	t.Cleanup(func() { cancel(); <-over })
	ended := func(activation string) bool { return strings.Contains(log.String(), "because="+activation+" ") }

	o.reload("onStartup")
	<-releases.asked
	o.reload("globalValuesChanged")
	o.reload("globalValuesChanged") // one that waits is enough
	releases.answer <- nil
	<-releases.asked
	if !ended("onStartup") {
		t.Error("a hook has restarted a reload")
	}
	o.restart("configChanged")
	releases.answer <- nil
	<-releases.asked
	if ended("globalValuesChanged") {
		t.Error("an administrator has waited for a reload")
	}
	o.reload("globalValuesChanged")
	releases.answer <- errors.New("no API server")
	for again := false; !again; {
		select {
		case <-releases.asked:
			again = true
		case <-time.After(10 * time.Millisecond):
			o.engine.Queues().Wake(binding.MainQueue)
		}
	}
	releases.answer <- nil
	for deadline := time.Now().Add(time.Minute); !ended("globalValuesChanged"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(log)
		}
	}
	if ended("configChanged") {
		t.Error("a reload that has failed was not given up for the next one")
	}
}
