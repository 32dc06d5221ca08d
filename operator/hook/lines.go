package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"

	"github.com/sealift/sealift/internal/tail"
)

// longestLine is where a line of a hook is cut, in bytes.
const longestLine = 64 << 10

// lines takes both streams of a hook to the log, and keeps their end for an error.
type lines struct {
	log  *slog.Logger
	raw  io.Writer
	hook string
	why  []slog.Attr // why the hook runs
	tail tail.Buffer
	mu   sync.Mutex // of raw
}

// line is one of the streams.
type line struct {
	*lines

	stream string
	text   []byte
	cut    bool
}

func (l *lines) of(stream string) *line { return &line{lines: l, stream: stream} }

func (l *line) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		room := longestLine - len(l.text)
		l.cut = l.cut || len(part) > room
		l.text = append(l.text, part[:min(len(part), room)]...)
		if ended {
			l.flush()
		}
		rest = after
	}
	return len(p), nil
}

// flush logs the line that was read so far.
func (l *line) flush() {
	text := bytes.TrimSuffix(l.text, []byte("\r"))
	defer func() { l.text, l.cut = l.text[:0], false }()
	if len(text) == 0 {
		return
	}
	_, _ = l.tail.Write(append(bytes.Clone(text), '\n'))
	if l.raw != nil && !l.cut && text[0] == '{' && json.Valid(text) {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = l.raw.Write(append(bytes.Clone(text), '\n'))
		return
	}
	if l.log == nil {
		return
	}
	shown := string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	if l.cut {
		shown += "… (cut)"
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, shown, append([]slog.Attr{slog.String("hook", l.hook), slog.String("output", l.stream)}, l.why...)...)
}
