package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/sealift/sealift/operator/lifecycle"
)

// debugModules answers questions for global values and for modules.
func debugModules(mux *routes, m *lifecycle.Operator) {
	answer := func(w http.ResponseWriter, format string, value any, err error) {
		switch {
		case errors.Is(err, lifecycle.ErrUnknown):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			write(w, format, value, nil)
		}
	}
	about := func(w http.ResponseWriter, module, what, format string) {
		switch what {
		case "values", "config":
			value, err := m.Values(module, what == "config")
			answer(w, format, value, err)
		case "patches":
			value, err := m.Patches(module)
			answer(w, format, value, err)
		case "snapshots":
			value, err := m.Snapshots(module)
			answer(w, format, value, err)
		default:
			http.Error(w, fmt.Sprintf("%q is unknown; say values, config, patches or snapshots", what), http.StatusNotFound)
		}
	}
	mux.HandleFunc("GET /global/{file}", func(w http.ResponseWriter, r *http.Request) {
		what, format := cutFormat(r.PathValue("file"))
		if what == "list" {
			all := m.GlobalHooks()
			write(w, format, all, func() string { return strings.Join(append(all, ""), "\n") })
			return
		}
		about(w, "", what, format)
	})
	mux.HandleFunc("GET /module/{file}", func(w http.ResponseWriter, r *http.Request) {
		switch what, format := cutFormat(r.PathValue("file")); what {
		case "list":
			all := m.Modules()
			write(w, format, all, func() string { return modulesText(all) })
		case "resource-monitor":
			all, err := m.Monitored(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			write(w, format, all, func() string { return monitorText(all) })
		default:
			http.NotFound(w, r)
		}
	})
	mux.HandleFunc("GET /graph", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, modulesGraph(m.Modules())) })
	mux.HandleFunc("GET /module/{name}/{file}", func(w http.ResponseWriter, r *http.Request) {
		what, format := cutFormat(r.PathValue("file"))
		if what == "render" {
			text, err := m.Manifest(r.PathValue("name"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", plainText)
			_, _ = w.Write([]byte(text))
			return
		}
		about(w, r.PathValue("name"), what, format)
	})
}

// modulesGraph returns the order of the modules as a Graphviz graph.
func modulesGraph(all []lifecycle.Status) string {
	var out strings.Builder
	out.WriteString("digraph modules {\n")
	before := ""
	for _, m := range all {
		if !m.Enabled {
			fmt.Fprintf(&out, "  %q [style=dashed, label=%q];\n", m.Name, m.Name+"\noff")
			continue
		}
		fmt.Fprintf(&out, "  %q;\n", m.Name)
		if before != "" {
			fmt.Fprintf(&out, "  %q -> %q;\n", before, m.Name)
		}
		before = m.Name
	}
	out.WriteString("}\n")
	return out.String()
}

func modulesText(all []lifecycle.Status) string {
	var out strings.Builder
	for _, m := range all {
		state := "off"
		if m.Enabled {
			state = "on"
		}
		fmt.Fprintf(&out, "%s: %s, because %s\n", m.Name, state, m.Why)
	}
	return out.String()
}

func monitorText(all []lifecycle.Monitor) string {
	var out strings.Builder
	for _, m := range all {
		fmt.Fprintf(&out, "%s: %d objects, %d absent\n", m.Module, m.Objects, len(m.Absent))
		for _, name := range m.Absent {
			fmt.Fprintf(&out, "  %s\n", name)
		}
	}
	return out.String()
}

// levelName is the setting that can be changed while the operator runs.
const levelName = "log.level"

func debugConfig(mux *routes, level *slog.LevelVar) {
	mux.HandleFunc("GET /config/{file}", func(w http.ResponseWriter, r *http.Request) {
		what, format := cutFormat(r.PathValue("file"))
		if what != "list" {
			http.NotFound(w, r)
			return
		}
		value := strings.ToLower(level.Level().String())
		write(w, format, map[string]string{levelName: value}, func() string { return levelName + " " + value + "\n" })
	})
	mux.HandleFunc("POST /config/set", func(w http.ResponseWriter, r *http.Request) {
		name, value := r.URL.Query().Get("name"), r.URL.Query().Get("value")
		if name != levelName {
			http.Error(w, fmt.Sprintf("there is no setting %q; %s is the only one", name, levelName), http.StatusBadRequest)
			return
		}
		if err := level.UnmarshalText([]byte(value)); err != nil {
			http.Error(w, fmt.Sprintf("%s %q is not one of debug, info, warn and error", levelName, value), http.StatusBadRequest)
		}
	})
}
