package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/upload"
)

// bundleOf is a file that begins as a bundle does. The sealift of the tests refuses one with FORGED.
func bundleOf(text string) []byte { return []byte("\x1f\x8b" + text) }

// send sends a request of the upload's script.
func (p *person) send(method, path string, body []byte, headers map[string]string) (int, http.Header, []byte) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+path, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	resp, err := p.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, text
}

// begin creates an upload, and returns its path.
func (p *person) begin(form, name string, length int) (int, string) {
	p.t.Helper()
	code, h, text := p.send("POST", "/uploads", nil, map[string]string{"Sealift-Form": form, "Upload-Name": name, "Upload-Length": strconv.Itoa(length)})
	if path := h.Get("Location"); path != "" {
		return code, path
	}
	return code, string(text)
}

func (p *person) patch(form, path string, offset int, chunk []byte) (int, upload.Upload) {
	p.t.Helper()
	sum := sha256.Sum256(chunk)
	code, h, text := p.send("PATCH", path, chunk, map[string]string{"Sealift-Form": form, "Upload-Offset": strconv.Itoa(offset), "Upload-SHA256": hex.EncodeToString(sum[:])})
	var u upload.Upload
	if code == http.StatusOK {
		if err := json.Unmarshal(text, &u); err != nil || h.Get("Upload-Offset") != strconv.FormatInt(u.Offset, 10) {
			p.t.Fatalf("%s: %v, %v", text, err, h)
		}
	}
	return code, u
}

// upload sends a whole file, and returns the upload at its end.
func (p *person) upload(name string, content []byte) (u upload.Upload) {
	p.t.Helper()
	form := p.form("/bundles")
	code, path := p.begin(form, name, len(content))
	if code != http.StatusCreated {
		p.t.Fatalf("%s: %d %s", name, code, path)
	}
	if code, _ := p.patch(form, path, 0, content); code != http.StatusOK {
		p.t.Fatalf("%s: %d", name, code)
	}
	wait(p.t, func() bool {
		code, _, text := p.send("GET", path, nil, map[string]string{"Sealift-Form": form})
		if err := json.Unmarshal(text, &u); code != http.StatusOK || err != nil {
			p.t.Fatalf("%d %s %v", code, text, err)
		}
		return u.State == upload.Ready || u.State == upload.Refused
	})
	return u
}

// TestBundleIsUploadedInChunks restarts the console between two chunks.
func TestBundleIsUploadedInChunks(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Operator)
	form, content := p.form("/bundles"), bundleOf(strings.Repeat("good", 1000))
	_, path := p.begin(form, "cluster-2.tar.gz", len(content))
	if code, u := p.patch(form, path, 0, content[:1000]); code != http.StatusOK || u.Offset != 1000 {
		t.Fatalf("%d %+v", code, u)
	}
	c.restart()
	if _, _, text := p.get("/bundles"); !strings.Contains(text, "To resume, choose the same file again") {
		t.Errorf("the page does not show the upload: %s", text)
	}
	code, again := p.begin(form, "cluster-2.tar.gz", len(content))
	if code != http.StatusOK || again != path {
		t.Errorf("the same file again: %d %s", code, again)
	}
	if code, _ := p.patch(form, path, 500, content[500:]); code != http.StatusConflict {
		t.Errorf("a chunk elsewhere: %d", code)
	}
	if code, u := p.patch(form, path, 1000, content[1000:]); code != http.StatusOK || u.State == upload.Receiving {
		t.Fatalf("%d %+v", code, u)
	}
	ready := filepath.Join(c.options.Uploads.Bundles, "cluster-2.tar.gz")
	wait(t, func() bool { _, err := os.Stat(ready); return err == nil })
	if got, err := os.ReadFile(ready); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the bundle has %d bytes, %v", len(got), err)
	}
	if calls := c.calls(); !strings.Contains(calls, "verify "+c.options.Uploads.Spool) || !strings.Contains(calls, "--key /root/release.pub -o json") {
		t.Errorf("it was not verified: %s", calls)
	}
	wait(t, func() bool {
		_, _, text := p.get("/bundles")
		return strings.Contains(text, `<a href="/bundles/uploaded/cluster-2.tar.gz">`)
	})
	if _, _, text := p.get("/upgrade"); !strings.Contains(text, "<option>uploaded/cluster-2.tar.gz</option>") {
		t.Errorf("no upgrade can be planned with it: %s", text)
	}
	admin := c.as(access.Administrator)
	if code, _, _ := admin.post("/bundles/uploaded/cluster-2.tar.gz/delete", admin.form("/"), nil); code != http.StatusSeeOther {
		t.Errorf("delete it: %d", code)
	}
	if _, err := os.Stat(ready); !os.IsNotExist(err) {
		t.Errorf("it was not deleted: %v", err)
	}
	lines, err := c.audit.Last(20)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range lines {
		said = append(said, e.What+" "+e.Result)
	}
	if all := strings.Join(said, "; "); !strings.Contains(all, "delete bundle done") || !strings.Contains(all, "upload ready; upload resumed; upload started") {
		t.Errorf("the audit has %s", all)
	}
}

func TestAttacksOnUploadsAreRefused(t *testing.T) {
	c := start(t, documents())
	p, viewer, admin, john := c.as(access.Operator), c.as(access.Viewer), c.named("root", access.Administrator), c.named("john", access.Operator)
	form, content := p.form("/bundles"), bundleOf("good")
	_, path := p.begin(form, "a.tar.gz", len(content))
	chunk := map[string]string{"Upload-Offset": "0"}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{"Upload-Offset": "0", "Sealift-Form": form}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	for attack, row := range map[string]struct {
		who     *person
		headers map[string]string
		body    []byte
		want    int
	}{
		"without a session":              {c.person(), with(nil), content, http.StatusUnauthorized},
		"without the form's token":       {p, chunk, content, http.StatusForbidden},
		"with the token in a form":       {p, with(map[string]string{"Sealift-Form": "", "Content-Type": "application/x-www-form-urlencoded"}), []byte("form=" + form), http.StatusForbidden},
		"with another session's token":   {p, with(map[string]string{"Sealift-Form": admin.form("/")}), content, http.StatusForbidden},
		"from another site":              {p, with(map[string]string{"Sec-Fetch-Site": "cross-site"}), content, http.StatusForbidden},
		"as a viewer":                    {viewer, with(map[string]string{"Sealift-Form": viewer.form("/")}), content, http.StatusForbidden},
		"to another person's upload":     {john, with(map[string]string{"Sealift-Form": john.form("/")}), content, http.StatusNotFound},
		"more bytes than announced":      {p, with(nil), append(content, "more"...), http.StatusBadRequest},
		"another content than announced": {p, with(map[string]string{"Upload-SHA256": strings.Repeat("0", 64)}), content, http.StatusUnprocessableEntity},
		"an offset that is not a number": {p, with(map[string]string{"Upload-Offset": "-1x"}), content, http.StatusBadRequest},
	} {
		if code, _, text := row.who.send("PATCH", path, row.body, row.headers); code != row.want {
			t.Errorf("%s: got %d, want %d: %s", attack, code, row.want, text)
		}
	}
	_, program := p.begin(form, "program.tar.gz", 6)
	if code, _ := p.patch(form, program, 0, []byte("#!/bin")); code != http.StatusBadRequest {
		t.Errorf("a program: got %d", code)
	}
	for _, name := range []string{"../a.tar.gz", "-o.tar.gz", "a", "a b.tar.gz", "uploaded/a.tar.gz", "%2e%2e%2fa.tar.gz"} {
		if code, text := p.begin(form, name, 5); code != http.StatusBadRequest {
			t.Errorf("%q: got %d %s", name, code, text)
		}
	}
	for _, route := range []string{"/bundles/uploaded/..%2f..%2fcalls", "/bundles/folder/..%2fcalls", "/bundles/other/cluster.tar.gz", "/uploads/..%2f..%2fcalls"} {
		if code, _, _ := p.get(route); code != http.StatusNotFound {
			t.Errorf("%s: got %d", route, code)
		}
	}
	for _, one := range []string{"b.tar.gz", "c.tar.gz"} {
		if code, text := p.begin(form, one, 5); (code == http.StatusCreated) != (one == "b.tar.gz") || one == "c.tar.gz" && !strings.Contains(text, "2 uploads are open") {
			t.Errorf("%s: got %d %s", one, code, text)
		}
	}
	if code, _, _ := p.post("/bundles/uploaded/a.tar.gz/delete", form, nil); code != http.StatusForbidden {
		t.Errorf("an operator deletes: %d", code)
	}
	if code, _, _ := viewer.post(path+"/cancel", viewer.form("/"), nil); code != http.StatusForbidden {
		t.Errorf("a viewer cancels: %d", code)
	}
	if code, _, _ := john.post(path+"/cancel", john.form("/"), nil); code != http.StatusNotFound {
		t.Errorf("another operator cancels: %d", code)
	}
	if code, _, _ := admin.post(path+"/cancel", admin.form("/"), nil); code != http.StatusSeeOther {
		t.Errorf("an administrator cancels: %d", code)
	}
	c.options.Settings.BundleKeys = nil
	c.restart()
	if code, text := p.begin(form, "d.tar.gz", 5); code != http.StatusForbidden || !strings.Contains(text, "--bundle-key FILE") {
		t.Errorf("without a key: %d %s", code, text)
	}
	if code, _, _ := p.post("/actions/upgrade-plan", form, url.Values{"bundle": {"uploaded/a.tar.gz"}}); code != http.StatusBadRequest {
		t.Errorf("plan with an uploaded bundle, without a key: %d", code)
	}
}
