package page_test

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/internal/atomicfile"
)

// plan plans an action, and waits for the end.
func (p *person) plan(action string, values url.Values) {
	p.t.Helper()
	code, h, text := p.post("/actions/"+action, p.form("/"), values)
	if code != http.StatusSeeOther {
		p.t.Fatalf("%s: %d %s", action, code, text)
	}
	p.finish(h.Get("Location"))
}

func TestUpgradeNeedsItsPlan(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Administrator)
	p.upload("new.tar.gz", bundleOf("good"))
	form := p.form("/")
	refused := func(why, action, bundle, says string) {
		t.Helper()
		code, _, text := p.post("/actions/"+action, form, url.Values{"bundle": {bundle}})
		if code != http.StatusBadRequest || !strings.Contains(text, says) || strings.Contains(c.calls(), "--yes") {
			t.Errorf("%s: %d %s", why, code, text)
		}
	}
	refused("without a plan", command.StartUpgrade, "uploaded/new.tar.gz", "look at the plan first")
	refused("an undo without a plan", command.UndoUpgrade, "", "look at the plan first")
	p.plan(command.PlanUpgrade, url.Values{"bundle": {"cluster.tar.gz"}})
	refused("with the plan of another bundle", command.StartUpgrade, "uploaded/new.tar.gz", "look at the plan first")
	refused("an undo with the plan of an upgrade", command.UndoUpgrade, "", "look at the plan first")
	refused("with another file", command.StartUpgrade, "../../etc/x.tar.gz", "choose one of the list")
	p.plan(command.PlanUpgrade, url.Values{"bundle": {"uploaded/new.tar.gz"}})
	if _, _, text := p.get("/upgrade"); !strings.Contains(text, `action="/actions/upgrade-start"`) || !strings.Contains(text, "<option>uploaded/new.tar.gz</option>") {
		t.Errorf("the page does not offer the upgrade: %s", text)
	}
	if _, _, text := c.as(access.Operator).get("/upgrade"); strings.Contains(text, `action="/actions/upgrade-start"`) {
		t.Error("the page offers the upgrade to an operator")
	}
	c.clock.move(20 * time.Minute)
	p.get("/")
	c.clock.move(20 * time.Minute)
	p.get("/")
	c.clock.move(20 * time.Minute)
	refused("with a plan of an hour ago", command.StartUpgrade, "uploaded/new.tar.gz", "look at the plan first")
	p.plan(command.PlanUpgrade, url.Values{"bundle": {"uploaded/new.tar.gz"}})
	if err := os.Remove(filepath.Join(c.dir, "upgrade --bundle")); err != nil { // the cluster has changed since
		t.Fatal(err)
	}
	p.plan(command.PlanUpgrade, url.Values{"bundle": {"uploaded/new.tar.gz"}})
	refused("with a plan that failed, after a good one", command.StartUpgrade, "uploaded/new.tar.gz", "look at the plan first")
}

// TestUpgradeIsFollowed reads the stream until a node of the upgrade has another stage.
func TestUpgradeIsFollowed(t *testing.T) {
	c := start(t, documents())
	if code, _, _ := c.person().do("GET", eventsOfUpgrade, nil, func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }); code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", code)
	}
	p := c.as(access.Viewer)
	r, err := http.NewRequestWithContext(t.Context(), "GET", c.URL+eventsOfUpgrade, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := atomicfile.Write(filepath.Join(c.dir, "upgrade status"), []byte(`{"upgrade":{"to":"1.37.2","nodes":{"node-1":{"stage":"done"}}}}`)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			t.Fatal("the stream ended", lines.Err())
		}
		if lines.Text() == "event: change" {
			return
		}
	}
}

// TestRestoreDrillRuns starts a drill, and reads its result on the page of snapshots.
func TestRestoreDrillRuns(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Operator)
	values := url.Values{"snapshot": {"snapshot-0123abcd-node-20260102T030405Z.tar.gz.age"}}
	if code, h, text := p.post("/actions/"+command.DrillSnapshot, p.form("/"), values); code != http.StatusSeeOther || h.Get("Location") != "/snapshots" {
		t.Fatalf("%d %s", code, text)
	}
	if _, _, text := p.get("/snapshots"); !strings.Contains(text, "It is running") {
		t.Errorf("the page does not say that it is running: %s", text)
	}
	c.release()
	p.finish("/snapshots")
	if _, _, text := p.get("/snapshots"); !strings.Contains(text, "12 pods") || !strings.Contains(text, "Done, in ") {
		t.Errorf("the page lacks the result: %s", text)
	}
	if want := "restore snapshot-0123abcd-node-20260102T030405Z.tar.gz.age --drill --identity /root/key --store /backups\n"; !strings.Contains(c.calls(), want) {
		t.Errorf("the calls are %s, want %s", c.calls(), want)
	}
}

// TestUpgradeOutlivesTheConsole restarts the console during an upgrade, and then undoes that.
func TestUpgradeOutlivesTheConsole(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Administrator)
	p.upload("new.tar.gz", bundleOf("good"))
	bundle := url.Values{"bundle": {"uploaded/new.tar.gz"}}
	p.plan(command.PlanUpgrade, bundle)
	p.plan(command.PlanUndo, nil)
	if code, h, text := p.post("/actions/"+command.StartUpgrade, p.form("/"), bundle); code != http.StatusSeeOther || h.Get("Location") != "/upgrade" {
		t.Fatalf("start: %d %s", code, text)
	}
	for _, action := range []string{command.StartUpgrade, command.UndoUpgrade} {
		if code, _, text := p.post("/actions/"+action, p.form("/"), bundle); code != http.StatusConflict || !strings.Contains(text, "jane has started") {
			t.Errorf("%s meanwhile: %d %s", action, code, text)
		}
	}
	if code, _, text := p.post("/bundles/uploaded/new.tar.gz/delete", p.form("/"), nil); code != http.StatusConflict || !strings.Contains(text, "is running") {
		t.Errorf("delete the bundle meanwhile: %d %s", code, text)
	}
	c.restart()
	if _, _, text := p.get("/upgrade"); !strings.Contains(text, "It is running, also if the console restarts") || !strings.Contains(text, `<noscript><meta http-equiv="refresh"`) {
		t.Errorf("after a restart of the console: %s", text)
	}
	c.release()
	p.finish("/upgrade")
	_, _, text := p.get("/upgrade")
	if want := "upgrade --bundle " + filepath.Join(c.options.Uploads.Bundles, "new.tar.gz") + " --key /root/release.pub --yes\n"; !strings.Contains(c.calls(), want) || !strings.Contains(text, "Done, in ") {
		t.Errorf("the calls are %s, want %s; the page says %s", c.calls(), want, text)
	}
	p.plan(command.PlanUndo, nil) // the console has forgotten its plans
	if code, _, text := p.post("/actions/"+command.UndoUpgrade, p.form("/"), nil); code != http.StatusSeeOther {
		t.Fatalf("undo: %d %s", code, text)
	}
	p.finish("/upgrade")
	if !strings.Contains(c.calls(), "upgrade undo --yes\n") {
		t.Errorf("the calls are %s", c.calls())
	}
	lines, err := c.audit.Last(50)
	if err != nil {
		t.Fatal(err)
	}
	var starts int
	for _, e := range lines {
		if e.Result == "started" && (e.What == "action "+command.StartUpgrade || e.What == "action "+command.UndoUpgrade) {
			starts++
		}
	}
	if starts != 2 {
		t.Errorf("the audit has %d starts: %+v", starts, lines)
	}
}
