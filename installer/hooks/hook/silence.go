package hook

import (
	"context"
	"fmt"
	"time"
)

// SilenceError reports that a hook printed nothing for so long that it was stopped.
type SilenceError struct{ Silence time.Duration }

func (e *SilenceError) Error() string {
	return fmt.Sprintf("stopped after %s without output; work that takes longer must say so while it goes on, or its add-on allows more with 'silence' in addon.yaml", e.Silence)
}

// hearing is a writer that only notes that something was written.
type hearing chan<- struct{}

// Write implements io.Writer.
func (h hearing) Write(p []byte) (int, error) {
	select {
	case h <- struct{}{}:
	default:
	}
	return len(p), nil
}

// SetSilence sets how long the shell may print nothing from the next request on; zero for any time.
func (s *Shell) SetSilence(d time.Duration) { s.silence = d }

// listen ends a context when the shell has printed nothing for too long.
func (s *Shell) listen(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := s.silence
	if silence == 0 {
		return ctx, cancel
	}
	go func() {
		for timer := time.NewTimer(silence); ; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-s.heard:
				timer.Reset(silence)
			case <-timer.C:
				cancel(&SilenceError{silence})
				return
			}
		}
	}()
	return ctx, cancel
}
