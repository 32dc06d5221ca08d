package channel

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// kustomization serves a kustomization and, for every other path, a file of a size in bytes.
func kustomization(t *testing.T, names []string, size int) (entry Entry, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, kustomizationFile) {
			_, _ = w.Write([]byte("resources:\n- " + strings.Join(names, "\n- ") + "\n"))
			return
		}
		_, _ = w.Write([]byte("# " + strings.Repeat("x", size)))
	}))
	t.Cleanup(server.Close)
	return Entry{Name: "x", Location: server.URL + "/x/"}, asked
}

func TestKustomizationWithRepeatedFileIsFetchedOnce(t *testing.T) {
	entry, asked := kustomization(t, strings.Fields(strings.Repeat("a.yaml ./a.yaml ../x/a.yaml ", 300)), 1)
	_, err := Source{}.Objects(t.Context(), entry)
	if asked.Load() != 2 {
		t.Errorf("asked %d times (%v)", asked.Load(), err)
	}
}

func TestKustomizationsAreBounded(t *testing.T) {
	var names []string
	for _, letter := range "abcdefghijkl" {
		names = append(names, string(letter)+".yaml")
	}
	entry, asked := kustomization(t, names, 30<<20)
	_, err := Source{}.Objects(t.Context(), entry)
	if err == nil || !strings.Contains(err.Error(), "more than 256 MiB together") || asked.Load() > 10 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

func TestRemoteKustomizationReadsNoLocalOne(t *testing.T) {
	home := fixture.Folder(t, map[string]string{
		kustomizationFile: "secretGenerator: [{name: s, files: [key]}]\n", "key": "hush",
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x/"+kustomizationFile {
			_, _ = w.Write([]byte("resources: [" + strings.Repeat("../", 30) + home[1:] + "]\n"))
			return
		}
		_, _ = w.Write([]byte("{}\n"))
	}))
	t.Cleanup(server.Close)
	objs, err := Source{}.Objects(t.Context(), Entry{Name: "x", Location: server.URL + "/x/"})
	if err == nil || !strings.Contains(err.Error(), "is outside of what its kustomization came with") {
		t.Errorf("%d objects, %v", len(objs), err)
	}
}
