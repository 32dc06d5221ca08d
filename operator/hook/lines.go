package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/tail"
)

// longestLine is where a line of a hook is cut, in bytes.
const longestLine = 64 << 10

// lines takes both streams of a hook to the log, and keeps their end for an error.
type lines struct {
	log  *slog.Logger
	json bool // lines may be records of a log
	hook string
	why  []slog.Attr // why the hook runs
	tail tail.Buffer
}

// line is one of the streams.
type line struct {
	*lines

	stream string
	text   []byte
	cut    bool
	held   [][]byte // the lines so far of an unfinished record
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

// flush logs the pending line.
func (l *line) flush() {
	text := bytes.TrimSuffix(l.text, []byte("\r"))
	defer func() { l.text, l.cut = l.text[:0], false }()
	if len(text) == 0 {
		return
	}
	_, _ = l.tail.Write(append(bytes.Clone(text), '\n'))
	if l.log == nil {
		return
	}
	l.take(text)
}

// take logs a line, alone or as part of a record.
func (l *line) take(text []byte) {
	if l.json && !l.cut && (l.held != nil || bytes.HasPrefix(bytes.TrimLeft(text, " \t"), []byte("{"))) {
		l.held = append(l.held, bytes.Clone(text))
		l.join()
		return
	}
	l.release()
	l.plain(text)
}

// end logs the rest at the end of the stream.
func (l *line) end() {
	l.flush()
	l.release()
}

// plain logs a line that is not a record.
func (l *line) plain(text []byte) {
	shown := string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	if l.cut {
		shown += "… (cut)"
	}
	l.emit(slog.LevelInfo, shown)
}

// release logs the lines of a record that does not end, or is none.
func (l *line) release() {
	for _, text := range l.held {
		l.plain(text)
	}
	l.held = nil
}

// mostLines is how many lines a record may have.
const mostLines = 1000

// join logs held lines as one record, as upstream does with JSON over several lines. It holds lines while a record may continue.
func (l *line) join() {
	text := bytes.Join(l.held, []byte("\n"))
	records, err := decodeRecords(text)
	switch last := len(l.held) - 1; {
	case err == nil:
		for _, record := range records {
			l.pass(record)
		}
		l.held = nil
	case errors.Is(err, io.ErrUnexpectedEOF) && len(text) <= longestLine && last < mostLines:
	case last == 0:
		l.release()
	default: // another record may begin in the last line
		text = l.held[last]
		l.held = l.held[:last]
		l.release()
		l.take(text)
	}
}

// decodeRecords reads JSON objects, one behind the other.
func decodeRecords(text []byte) (records []map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var record map[string]any
		if err := dec.Decode(&record); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
}

func (l *line) emit(level slog.Level, message string, more ...slog.Attr) {
	l.log.LogAttrs(context.Background(), level, message, slices.Concat([]slog.Attr{slog.String("hook", l.hook), slog.String("output", l.stream)}, l.why, more)...)
}

// longestRecord is where the fields of a record are cut, in bytes.
const longestRecord = 10000

// pass copies a record of a hook's own log to the log: with its level and its message, and its other fields with a prefix (S-20).
func (l *line) pass(record map[string]any) {
	take := func(key string) string {
		text, _ := record[key].(string)
		delete(record, key)
		return text
	}
	level, err := ParseLevel(take(slog.LevelKey))
	if err != nil {
		level = slog.LevelInfo
	}
	message := cmp.Or(take(slog.MessageKey), "hook result")
	delete(record, slog.TimeKey)
	fields := []slog.Attr{slog.Bool("proxyJsonLog", true)}
	if text, err := json.Marshal(record); err == nil && len(text) > longestRecord {
		l.emit(level, message, append(fields, slog.Group("hook", slog.String("truncated", string(bytes.ToValidUTF8(text[:longestRecord], nil))+":truncated")))...)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(record)) {
		fields = append(fields, slog.Any("hook_"+key, record[key]))
	}
	l.emit(level, message, fields...)
}

// otherLevels are names of levels that log/slog does not have, and the nearest that it has.
var otherLevels = map[string]string{"trace": "debug", "warning": "warn", "fatal": "error"}

// ParseLevel reads the name of a level of a log, such as info, in any case.
func ParseLevel(name string) (level slog.Level, err error) {
	name = strings.ToLower(name)
	return level, level.UnmarshalText([]byte(cmp.Or(otherLevels[name], name)))
}
