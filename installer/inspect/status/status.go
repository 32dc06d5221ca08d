// Package status reports what a node is and how far it came: of the journal, the last run, the services and the cluster.
//
// It waits for nobody and changes nothing.
package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/endpoint"
	"github.com/sealift/sealift/installer/operation/readdress"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/kube"
)

// AddOn is the progress of an add-on on this node, and its state in the cluster.
type AddOn struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`            // installed, installing, failed, pending
	Health  string `json:"health,omitempty"` // ready, not ready, unknown; empty when it runs nothing in the cluster
	Why     string `json:"why,omitempty"`
}

// Failure is the step at which the last run stopped.
type Failure struct {
	Step  string    `json:"step"`
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
	Log   string    `json:"log"`
}

// Rotation is how far the rotation of the cluster's CAs is.
type Rotation struct {
	Since string   `json:"since"`
	Parts []string `json:"parts"`
	Next  string   `json:"next"` // the command that resumes
}

// Undo is an undo of an upgrade that this control plane goes through together with others.
type Undo struct {
	Leader string `json:"leader"` // where 'sealift upgrade undo' resumes
}

// Status is the state of this node.
type Status struct {
	// State is none, running, interrupted, failed, installed, or resetting.
	State     string         `json:"state"`
	Installer string         `json:"installer,omitempty"`
	Bundle    string         `json:"bundle,omitempty"`
	Log       string         `json:"log,omitempty"`
	Resume    string         `json:"resume,omitempty"` // the command that resumes, if there is unfinished work
	Steps     int            `json:"steps"`
	Finished  int            `json:"finished"`
	Open      []string       `json:"open,omitempty"` // the steps that were begun and did not end
	Failure   *Failure       `json:"failure,omitempty"`
	LastStep  time.Time      `json:"lastStep,omitzero"` // when the newest record of the journal was written
	AddOns    []AddOn        `json:"addOns"`
	Nodes     []cluster.Node `json:"nodes"`
	// Stopped are the services that the install made and that do not run, or whose last run failed. The cluster takes up to a minute to
	// notice.
	Stopped []string `json:"stopped,omitempty"`
	// Settings are kernel settings that break pods: current ones, and those that files would set at the next boot.
	Settings []Setting `json:"settings,omitempty"`
	// Certificates lists damaged certificates, and those that expire within three months or have expired.
	Certificates []pki.Entry `json:"certificates,omitempty"`
	// AllCertificates are all of this node.
	AllCertificates []pki.Entry `json:"-"`
	// NextRenewal is when Sealift renews certificates of this node automatically.
	NextRenewal time.Time `json:"nextRenewal,omitzero"`
	// Rotation is the rotation of the cluster's CAs that is under way on this control plane.
	Rotation *Rotation `json:"rotation,omitempty"`
	// LoadBalancer is the change to another load balancer that is under way in the cluster.
	LoadBalancer *endpoint.Underway `json:"loadBalancer,omitempty"`
	// UnderWay are the changes of all nodes that have begun and not ended.
	UnderWay []UnderWay `json:"underWay,omitempty"`
	Undo     *Undo      `json:"undo,omitempty"`
	// Snapshots are those of this control plane, Drill the last one here.
	Snapshots *Snapshots         `json:"snapshots,omitempty"`
	Drill     *restore.LastDrill `json:"drill,omitempty"`
	// Space is what the disks of the node have left for the next upgrade.
	Space []Space `json:"space,omitempty"`
	// Sees is the scope of the node's credentials: cluster, or node on a worker, which sees only itself.
	Sees    string       `json:"sees,omitempty"`
	Cluster string       `json:"cluster"`       // how the cluster answers, in words
	API     *cluster.API `json:"api,omitempty"` // nil when the node is part of no cluster

	expired bool // a certificate has ended or is damaged
}

// clusterTime bounds all requests to the cluster.
const clusterTime = 8 * time.Second

// Read reads the state of this node and its cluster. It waits for nothing and changes nothing; a cluster that does not answer
// is part of the status.
func Read(ctx context.Context, root string) (Status, error) {
	s := Status{State: "none", AddOns: []AddOn{}, Nodes: []cluster.Node{}, Cluster: "this node is part of none"}
	records, err := lifecycle.ReadJournal(node.StateDir(root))
	if err != nil {
		return s, fmt.Errorf("read the journal: %w", err)
	}
	run, err := node.LastRun(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.read(records, run, lifecycle.Busy(node.StateDir(root)))
	asked, cancel := context.WithTimeout(ctx, speed.Patience(clusterTime))
	defer cancel()
	if s.State == "installed" { // before that, some have nothing to do yet
		if err := s.readServices(asked, root); err != nil {
			return s, err
		}
	}
	if s.Settings, err = readSettings(os.DirFS("/")); err != nil {
		return s, err
	}
	s.readRecovery(root)
	if s.Space, err = spaceFor(run.Content, root); err != nil {
		return s, err
	}
	now := time.Now()
	certificates, err := pki.List(now)
	if err != nil {
		return s, err
	}
	s.noteCertificates(certificates, now)
	if s.Rotation, err = rotation(""); err != nil {
		return s, err
	}
	if s.Undo, err = ordered(root); err != nil {
		return s, err
	}
	if adopted, err := node.Adopted(root); err != nil {
		return s, err
	} else if adopted { // its certificates stay until the first upgrade
		s.NextRenewal = time.Time{}
	}
	view, err := cluster.NewView()
	if err != nil {
		s.Cluster = "cannot be asked: " + err.Error()
	} else if view != nil {
		s.askCluster(asked, view)
	}
	return s, ctx.Err()
}

// noteCertificates keeps those that need attention. An end that is near leaves the node healthy.
func (s *Status) noteCertificates(all []pki.Entry, now time.Time) {
	s.AllCertificates, s.NextRenewal = all, pki.ScheduleOf(all, now).Next
	for _, e := range all {
		if e.Problem != "" || e.Due(now) {
			s.Certificates = append(s.Certificates, e)
		}
		s.expired = s.expired || e.Problem != "" || e.Begin != nil || e.Ended(now)
	}
}

// rotation reads the rotation of CAs that a control plane knows of. rootfs is the folder with the host's files; empty means /.
func rotation(rootfs string) (*Rotation, error) {
	state, ok, err := authority.Read(rootfs)
	if err != nil || !ok {
		return nil, err
	}
	return &Rotation{state.ID, state.Rotated(), state.Next()}, nil
}

// UnderWay is one change of all nodes: see package record.
type UnderWay struct {
	Kind   string `json:"kind"`
	Leader string `json:"leader,omitempty"` // the node whose command began it, or resumed it last
	Stage  string `json:"stage,omitempty"`
	About  string `json:"about"` // a sentence without its end
	Next   string `json:"next"`  // the command that resumes, and where it has to run
	// Waits means that every node is done, and the end waits for a person.
	Waits bool `json:"waits,omitempty"`
	// Began is zero for a change that an earlier sealift began. Failed means that its last run ended with an error.
	Began  time.Time `json:"began,omitzero"`
	Failed bool      `json:"failed,omitempty"`
}

func underWay(ctx context.Context, c *kube.Cluster) (found []UnderWay, err error) {
	client, err := kubernetes.NewForConfigAndClient(c.Config())
	if err != nil {
		return nil, err
	}
	all, err := record.Store{Client: client}.Read(ctx)
	for _, r := range all.Sorted() {
		if r.Ended.IsZero() {
			found = append(found, UnderWay{r.Kind, r.Leader, r.Stage, r.About, r.Next, r.Waits, r.Began, r.Error != ""})
		}
	}
	return found, err
}

// ordered reads the undo that this control plane goes through. One that may still be given up has changed nothing.
func ordered(root string) (*Undo, error) {
	_, o, ok, err := undo.Store{Root: root}.Ordered()
	if err != nil || !ok || o.Stage == undo.Prepared {
		return nil, err
	}
	return &Undo{o.Leader}, nil
}

func (s *Status) readServices(ctx context.Context, root string) error {
	record, err := node.OpenBaseline(root, node.DefaultLogDir)
	if err != nil || record.Before() == nil {
		return err
	}
	s.Stopped = host.Stopped(ctx, node.Units(record))
	return nil
}

// read makes the status from the journal and the last run.
func (s *Status) read(records []lifecycle.Record, run node.Run, busy bool) {
	s.Installer, s.Bundle, s.Log, s.Steps = run.Installer, run.Bundle, run.Log, len(run.Plan)
	last := make(map[string]lifecycle.Record)
	for _, rec := range records {
		last[rec.Step] = rec
	}
	done := func(step lifecycle.Step) bool {
		return last[step.ID].Outcome == lifecycle.Finished && last[step.ID].Inputs == step.Inputs
	}
	for _, step := range run.Plan {
		if done(step) {
			s.Finished++
		}
	}
	if len(records) > 0 {
		s.LastStep = records[len(records)-1].Time
	}
	for _, a := range run.AddOns {
		s.AddOns = append(s.AddOns, AddOn{Name: a.Name, Version: a.Version, State: addOnState(a.Name, run.Plan, last, done)})
	}
	s.State = "installed"
	if len(records) == 0 {
		s.State = "none"
	}
	for _, rec := range lifecycle.OpenIn(records) {
		s.Open = append(s.Open, rec.Step)
	}
	if rec, failed := lifecycle.LastFailure(records); failed {
		s.Failure = &Failure{rec.Step, rec.Time, rec.Error, run.Log}
	}
	_, resetting := last[node.ResetStep]
	renewing, restoring := stopped(records, lifecycle.Renewing, pki.LastStep), stopped(records, lifecycle.Restoring, restore.LastStep)
	readdressing := readdress.Interrupted(records)
	switch {
	case resetting:
		s.State = "resetting"
	case busy:
		s.State = "running"
	case s.Failure != nil:
		s.State = "failed"
	case s.Finished < s.Steps || renewing || restoring || readdressing != "":
		s.State = "interrupted"
	}
	switch {
	case renewing && !resetting && !busy:
		s.Resume = hostpath.Sudo("certs renew")
	case restoring && !resetting && !busy:
		s.Resume = hostpath.Sudo("restore SNAPSHOT")
	case readdressing != "" && !resetting && !busy:
		s.Resume = hostpath.Sudo("node readdress " + readdressing)
	case s.State == "failed" || s.State == "interrupted":
		s.Resume = run.Resume
	case resetting && !busy:
		s.Resume = hostpath.Sudo("reset")
	}
}

// stopped reports whether the last run was such an operation that failed or was killed before its last step.
func stopped(records []lifecycle.Record, operation lifecycle.Operation, lastStep string) bool {
	if len(records) == 0 {
		return false
	}
	last := records[len(records)-1]
	return last.Operation == operation && (last.Step != lastStep || last.Outcome != lifecycle.Finished)
}

func addOnState(name string, plan lifecycle.Plan, last map[string]lifecycle.Record, done func(lifecycle.Step) bool) string {
	var all, finished int
	for _, step := range plan {
		if step.AddOn != name {
			continue
		}
		all++
		if last[step.ID].Outcome == lifecycle.Failed {
			return "failed"
		}
		if done(step) {
			finished++
		}
	}
	switch finished {
	case all:
		return "installed"
	case 0:
		return "pending"
	}
	return "installing"
}

func (s *Status) askCluster(ctx context.Context, view *cluster.View) {
	s.Sees = "cluster"
	if view.Own {
		s.Sees = "node"
	}
	api := view.API(ctx)
	s.API = &api
	switch {
	case !api.Answers:
		s.Cluster = "does not answer: " + api.Why
		return
	case !api.Ready:
		s.Cluster = "is not ready: " + api.Why
		return
	}
	nodes, err := visibleNodes(ctx, view)
	if err != nil {
		s.Cluster = "does not answer: " + err.Error()
		return
	}
	s.Nodes = nodes
	s.Cluster = "answers"
	if view.Own {
		return
	}
	if s.LoadBalancer, err = endpoint.FindUnderway(ctx, view.Cluster()); err != nil {
		s.Cluster += ", but: " + err.Error()
	}
	if s.UnderWay, err = underWay(ctx, view.Cluster()); err != nil {
		s.Cluster += ", but: " + err.Error()
	}
	var names []string
	for _, a := range s.AddOns {
		names = append(names, a.Name)
	}
	health, err := view.Health(ctx, names)
	for i := range s.AddOns {
		a := &s.AddOns[i]
		h, runs := health[a.Name]
		switch {
		case err != nil:
			a.Health, a.Why = "unknown", err.Error()
		case runs && h.Ready == h.Total:
			a.Health = "ready"
		case runs:
			a.Health, a.Why = "not ready", h.Trouble
		}
	}
}

func visibleNodes(ctx context.Context, view *cluster.View) ([]cluster.Node, error) {
	if !view.Own {
		return view.Nodes(ctx)
	}
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	own, err := view.OwnNode(ctx, name)
	return []cluster.Node{own}, err
}

// Healthy reports whether everything known of the node and the cluster is healthy.
func (s Status) Healthy() bool {
	return s.State == "installed" && s.Cluster == "answers" && len(s.Stopped) == 0 && !s.expired &&
		!slices.ContainsFunc(s.Settings, func(one Setting) bool { return one.File == "" }) &&
		!slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return !n.Ready }) &&
		!slices.ContainsFunc(s.AddOns, func(a AddOn) bool { return a.Health == "not ready" })
}
