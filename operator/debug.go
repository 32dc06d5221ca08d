package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// serveDebug answers on a socket that only its owner can open. The returned function ends that.
func serveDebug(ctx context.Context, path string, handler http.Handler) (stop func(), err error) {
	listener, err := listenDebug(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open the debug socket %s: %w", path, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(listener) }()
	return func() {
		_ = server.Close()
		_ = os.Remove(path)
	}, nil
}

// listenDebug creates the socket in a private folder, and moves it to its final path when its mode is set.
func listenDebug(ctx context.Context, path string) (net.Listener, error) {
	dialer := net.Dialer{Timeout: time.Second}
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, errors.New("another operator answers there; choose another path with --debug-unix-socket")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".socket-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	first := filepath.Join(private, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(first, 0o600); err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// routes is a mux that can list its paths.
type routes struct {
	http.ServeMux
	known []string
}

func (r *routes) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	r.known = append(r.known, pattern)
	r.ServeMux.HandleFunc(pattern, handler)
}

func debugHandler(e *work, level *slog.LevelVar) http.Handler {
	mux := &routes{}
	mux.HandleFunc("GET /discovery", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.Join(slices.Sorted(slices.Values(mux.known)), "\n"))
	})
	mux.HandleFunc("GET /queue/{file}", func(w http.ResponseWriter, r *http.Request) {
		name, format := cutFormat(r.PathValue("file"))
		states := queueStates(e.Engine, name, r.URL.Query().Get("showEmpty") == "true")
		if states == nil {
			http.NotFound(w, r)
			return
		}
		write(w, format, states, func() string { return queuesText(states) })
	})
	mux.HandleFunc("GET /hook/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		path, format := cutFormat(r.PathValue("rest"))
		if path == "list" {
			all := hookStates(e.Engine)
			write(w, format, all, func() string { return hooksText(all) })
			return
		}
		name, ok := strings.CutSuffix(path, "/snapshots")
		for _, h := range e.Hooks() {
			if ok && h.Name == name {
				write(w, format, h.Snapshots(), nil)
				return
			}
		}
		http.Error(w, fmt.Sprintf("there is no hook %q; 'operator hook list' names all", name), http.StatusNotFound)
	})
	if e.modules != nil {
		debugModules(mux, e.modules)
	}
	if level != nil {
		debugConfig(mux, level)
	}
	return mux
}

// cutFormat removes the format of list.json.
func cutFormat(file string) (name, format string) {
	extension := filepath.Ext(file)
	return strings.TrimSuffix(file, extension), strings.TrimPrefix(extension, ".")
}

// write answers in a format; text is nil where there is none.
func write(w http.ResponseWriter, format string, value any, text func() string) {
	var data []byte
	var err error
	kind := plainText
	switch {
	case format == "json":
		kind = "application/json"
		data, err = json.MarshalIndent(value, "", "  ")
		data = append(data, '\n')
	case format == "yaml":
		data, err = yaml.Marshal(value)
	case format == "text" && text != nil:
		data = []byte(text())
	default:
		http.Error(w, fmt.Sprintf("format %q is unknown; say json, yaml or, for lists, text", format), http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data)
}

// plainText sets the content type, so that no browser renders parts of a response as a page.
const plainText = "text/plain; charset=utf-8"

// Debug asks the operator that serves a socket for a path such as /queue/list.text.
func Debug(ctx context.Context, socket, path string) ([]byte, error) {
	return debugRequest(ctx, http.MethodGet, socket, path)
}

// Set changes a setting of the operator that serves a socket.
func Set(ctx context.Context, socket, name, value string) error {
	_, err := debugRequest(ctx, http.MethodPost, socket, "/config/set?"+url.Values{"name": {name}, "value": {value}}.Encode())
	return err
}

func debugRequest(ctx context.Context, method, socket, path string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://operator"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no debug socket %s; does the operator run here, and is this its --debug-unix-socket?", socket)
		}
		return nil, fmt.Errorf("ask the operator at %s: %w", socket, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the operator at %s: %w", socket, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the operator at %s: %s", socket, bytes.TrimSpace(data))
	}
	return data, nil
}
