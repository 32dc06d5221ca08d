package page

import (
	"html/template"

	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/command"
)

const (
	// maxJournal is how many steps the page of operations shows, maxAudit how many lines that of the audit.
	maxJournal, maxAudit = 60, 200
	// maxRows is how many rows a table has, and maxTable how many bytes they take with their markup. A page stays below 200 kB.
	maxRows, maxTable = 300, 120_000
	// rowMarkup is about how many bytes the markup of a row takes.
	rowMarkup = 300
)

// source is the command that gave a page its data.
type source struct {
	Command string
	Time    time.Time
	Problem string // why there is no data
	Said    text
}

func sourceOf(d command.Document, err error) source {
	s := source{Command: d.Command, Time: d.Time}
	if err != nil {
		s.Problem, s.Said = err.Error(), clean(d.Said)
	}
	return s
}

// statusPage is the data of pages about a status.
type statusPage struct {
	Source   source
	Status   status
	Problems []problem
	More     int // rows that are left out
}

func (s *Site) readStatus(r *http.Request) statusPage {
	d := s.reader.Read(r.Context(), "status")
	p := statusPage{}
	err := d.Decode(&p.Status)
	if p.Source = sourceOf(d, err); err != nil {
		d.Err = err
		p.Problems = []problem{unread(d)}
		return p
	}
	p.Problems = problems(p.Status, s.Now())
	return p
}

// shorten cuts a list to the rows of one page.
func shorten[T any](list []T, more *int) []T {
	size := 0
	for i, row := range list {
		if size += rowMarkup + len(template.HTMLEscaper(row)); i == maxRows || size > maxTable {
			*more = len(list) - i
			return list[:i]
		}
	}
	*more = 0
	return list
}

// overviewPage is the data of the first page.
type overviewPage struct {
	statusPage
	Graphs []graph
}

func (s *Site) overview(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := overviewPage{s.readStatus(r), s.graphs()}
	p.Problems = shorten(p.Problems, &p.More)
	return s.show(w, r, v, "overview", http.StatusOK, "Overview", p)
}

func (s *Site) nodes(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := s.readStatus(r)
	p.Status.Nodes = shorten(p.Status.Nodes, &p.More)
	return s.show(w, r, v, "nodes", http.StatusOK, "Nodes", p)
}

func (s *Site) addOns(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := s.readStatus(r)
	p.Status.AddOns = shorten(p.Status.AddOns, &p.More)
	return s.show(w, r, v, "add-ons", http.StatusOK, "Add-ons", p)
}

// certificatesPage is the data of the page with certificates.
type certificatesPage struct {
	Source       source
	Certificates []certificate
	More         int
}

func (s *Site) certificates(w http.ResponseWriter, r *http.Request, v visitor) error {
	d := s.reader.Read(r.Context(), "certs")
	var p certificatesPage
	p.Source = sourceOf(d, d.Decode(&p.Certificates))
	slices.SortStableFunc(p.Certificates, func(a, b certificate) int { return end(a).Compare(end(b)) })
	p.Certificates = shorten(p.Certificates, &p.More)
	return s.show(w, r, v, "certificates", http.StatusOK, "Certificates", p)
}

// end is when a certificate ends; what has no end is last.
func end(c certificate) time.Time {
	if c.End == nil {
		return time.Unix(1<<40, 0)
	}
	return *c.End
}

// Soon reports whether the certificate ends within 30 days, or has ended.
func (c certificate) Soon() bool { return c.Days != nil && *c.Days < 30 }

// snapshotsPage is the data of the page with snapshots.
type snapshotsPage struct {
	Source  source
	Store   string
	Status  statusPage
	List    []snapshot // the newest first
	More    int
	Save    offer
	Verify  offer
	Drill   offer
	Work    workView
	Restore string // the command, which the console does not run
}

// refresh makes the page reload itself while a restore is tried.
func (p snapshotsPage) refresh() bool { return p.Work.Running }

func (s *Site) snapshots(w http.ResponseWriter, r *http.Request, v visitor) error {
	words := []string{"snapshot", "list"}
	if s.Settings.SnapshotStore != "" {
		words = append(words, "--store", s.Settings.SnapshotStore)
	}
	d := s.reader.Read(r.Context(), words...)
	p := snapshotsPage{Store: s.Settings.SnapshotStore, Status: s.readStatus(r), Restore: command.Line("restore", "--identity", "FILE", "--plan")}
	p.Source = sourceOf(d, d.Decode(&p.List))
	slices.Reverse(p.List)
	p.List = shorten(p.List, &p.More)
	p.Save, p.Verify, p.Drill = s.offer(v, command.SaveSnapshot), s.offer(v, command.VerifySnapshot), s.offer(v, command.DrillSnapshot)
	for _, one := range p.List {
		p.Verify.Choices = append(p.Verify.Choices, string(one.File))
	}
	p.Drill.Choices = p.Verify.Choices
	if work := s.readWork(r, v); work.Action == command.DrillSnapshot {
		p.Work = work
	}
	return s.show(w, r, v, "snapshots", http.StatusOK, "Snapshots", p)
}

// operationsPage is the data of the page with changes of the whole cluster.
type operationsPage struct {
	Status        statusPage
	Rollout       rollout
	JournalSource source
	Journal       []journalLine // the newest first
	MoreSteps     int
	Pause, Resume offer
}

func (s *Site) operations(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := operationsPage{Status: s.readStatus(r), Pause: s.offer(v, command.PauseUpgrade), Resume: s.offer(v, command.ResumeUpgrade)}
	p.Rollout = s.readRollout(r, p.Status)
	d := s.reader.Read(r.Context(), "journal")
	p.JournalSource = sourceOf(d, d.Decode(&p.Journal))
	slices.Reverse(p.Journal)
	p.Journal = shorten(p.Journal[:min(len(p.Journal), maxJournal)], &p.MoreSteps)
	return s.show(w, r, v, "operations", http.StatusOK, "Operations", p)
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// supportPage is the data of the page for people who ask for help.
type supportPage struct {
	Status  statusPage
	Support string
	Logs    []string
}

func (s *Site) support(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := supportPage{Status: s.readStatus(r), Support: command.Line("support-bundle", "--out", "/tmp/support.tar.gz")}
	for _, unit := range []string{"kubelet", "containerd", "sealift-agent", "sealift-console"} {
		p.Logs = append(p.Logs, unitLog(unit))
	}
	if log := string(p.Status.Status.Log); filepath.IsAbs(log) && !strings.ContainsAny(log, "\n") {
		p.Logs = append(p.Logs, command.Shell("less", log))
	}
	return s.show(w, r, v, "support", http.StatusOK, "Support", p)
}

// auditView is the data of the page of the audit.
type auditView struct{ Done, Refused []audit.Entry }

func (s *Site) auditPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	done, err := s.Audit.Last(maxAudit)
	if err != nil {
		return err
	}
	refused, err := s.Refused.Last(maxAudit / 4)
	if err != nil {
		return err
	}
	return s.show(w, r, v, "audit", http.StatusOK, "Audit", auditView{done, refused})
}
