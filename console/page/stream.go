package page

import (
	"fmt"
	"net/http"
	"time"
)

const (
	eventStream = "text/event-stream"
	// maxStreams is how many pages follow something at a time.
	maxStreams = 32
	// streamPause is the time between signs of life in a stream. The session is looked up each time.
	streamPause = 10 * time.Second
	// streamTime is how long one stream lasts; the browser opens another one.
	streamTime = 10 * time.Minute
)

// stream sends events as long as the person may see them. send sends what is new; it returns what wakes it, and whether that was the end.
func (s *Site) stream(w http.ResponseWriter, r *http.Request, v visitor, send func(*http.ResponseController) (wake <-chan struct{}, end bool, err error)) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many pages follow actions; reload the page to see the progress", http.StatusTooManyRequests)
		return nil
	}
	w.Header().Set("Content-Type", eventStream)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // that of the request would end the stream, with HTTP/1
	end := time.NewTimer(streamTime)
	defer end.Stop()
	pause := time.NewTicker(streamPause)
	defer pause.Stop()
	for {
		wake, last, err := send(control)
		if err != nil || last {
			return nil // the client is gone, or everything is sent
		}
		select {
		case <-wake:
		case <-pause.C:
			if _, err := s.sessionOf(v.secret); err != nil {
				return nil
			}
			if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
				return nil
			}
		case <-end.C:
			return nil
		case <-r.Context().Done():
			return nil
		case <-s.context.Done():
			return nil
		}
	}
}
