package page

import (
	"reflect"
	"strings"
	"testing"
	"time"

	fleetview "github.com/sealift/sealift/fleet/view"
	"github.com/sealift/sealift/installer/cluster/pki"
	statusof "github.com/sealift/sealift/installer/inspect/status"
)

// TestDocumentsHaveKeysOfTheirCommands compares what pages read with what the commands print. The console has its own types: their texts
// are cleaned while they are read, and it links no client of Kubernetes.
func TestDocumentsHaveKeysOfTheirCommands(t *testing.T) {
	for command, row := range map[string]struct{ read, printed any }{
		"status":         {status{}, statusof.Status{}},
		"certs":          {certificate{}, pki.Entry{}},
		"fleet clusters": {fleetCluster{}, fleetview.Cluster{}},
		"fleet status":   {fleetAddOn{}, fleetview.AddOn{}},
		"fleet carried":  {carriedCluster{}, fleetview.Carried{}},
	} {
		compare(t, command, reflect.TypeOf(row.read), reflect.TypeOf(row.printed))
	}
}

// compare requires each key of one document in another one, and the same shape of its value.
func compare(t *testing.T, where string, read, printed reflect.Type) {
	t.Helper()
	read, printed = element(read), element(printed)
	if read.Kind() != printed.Kind() {
		t.Errorf("%s: read as %s, printed as %s", where, read, printed)
		return
	}
	if read.Kind() != reflect.Struct || read == reflect.TypeFor[time.Time]() {
		return
	}
	has := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(printed) {
		has[key(f)] = f.Type
	}
	for _, f := range reflect.VisibleFields(read) {
		below := where + "." + key(f)
		if of, ok := has[key(f)]; ok {
			compare(t, below, f.Type, of)
		} else {
			t.Errorf("%s: no command prints it", below)
		}
	}
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
