package page

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/background"
	"github.com/sealift/sealift/console/command"
)

// rollout is the picture of an upgrade: its nodes by their stages.
type rollout struct {
	Source     source
	Paused     bool
	Upgrade    upgradeState
	Unfinished bool // there is an upgrade to pause or resume
	Stages     []rolloutStage
	More       int // nodes that are left out
}

// rolloutStage is a stage of an upgrade with its nodes.
type rolloutStage struct {
	Name, About string
	Nodes       []rolloutNode
}

// rolloutNode is a node of an upgrade.
type rolloutNode struct {
	Name, Stage, Error text
	Took, Away         time.Duration
	Lost               bool // the cluster does not hear of it
	Why                text
}

// stages are those of a node in an upgrade, in their order. The first one has no name in documents.
func stages() []rolloutStage {
	return []rolloutStage{
		{Name: "waiting", About: "gets files and images"}, {Name: "prepared", About: "has all files and images"},
		{Name: "upgraded", About: "is changed, and starts again"}, {Name: "done", About: "runs the new version, and takes pods"},
	}
}

// readRollout reads the newest upgrade, and which of its nodes are lost.
func (s *Site) readRollout(r *http.Request, p statusPage) (out rollout) {
	d := s.reader.Read(r.Context(), "upgrade", "status")
	var read upgrade
	out.Source = sourceOf(d, d.Decode(&read))
	out.Paused, out.Upgrade = read.Paused, read.Upgrade
	out.Unfinished = read.Upgrade.To != "" && read.Upgrade.Phase != "finished"
	lost := map[text]text{}
	for _, n := range p.Status.Nodes {
		if !n.Ready {
			lost[n.Name] = n.Why
		}
	}
	var nodes []rolloutNode
	for _, name := range slices.Sorted(maps.Keys(read.Upgrade.Nodes)) {
		n := read.Upgrade.Nodes[name]
		line := rolloutNode{Name: clean(string(name)), Stage: n.Stage, Error: n.Error, Took: seconds(n.Took), Away: seconds(n.Away)}
		line.Why, line.Lost = lost[line.Name]
		nodes = append(nodes, line)
	}
	nodes = shorten(nodes, &out.More)
	if len(nodes) == 0 {
		return out
	}
	out.Stages = stages()
	for _, n := range nodes {
		at := slices.IndexFunc(out.Stages, func(stage rolloutStage) bool { return stage.Name == string(n.Stage) })
		at = max(at, 0)
		out.Stages[at].Nodes = append(out.Stages[at].Nodes, n)
	}
	return out
}

// upgradePage is the data of the page of upgrades.
type upgradePage struct {
	Rollout       rollout
	Work          workView
	Pause, Resume offer

	Problem string // why the bundles cannot be listed
	Plan    offer
	Job     *command.Job // whose plan is shown; nil for none
	Failure string
	Read    plan
	More    int  // rows that are left out
	Empty   bool // nothing would change
	Start   offer

	PlanUndo    offer
	UndoJob     *command.Job
	UndoFailure string
	Undo        undoPlan
	MoreLost    int
	StartUndo   offer
}

// workView is the newest change that the console has started.
type workView struct {
	background.State
	Problem string
	Visible bool // the person may see its output
}

// refresh makes the page reload itself where no script does.
func (p upgradePage) refresh() bool { return p.Work.Running }

func (s *Site) upgrade(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := upgradePage{
		Plan: s.offer(v, command.PlanUpgrade), Start: s.offer(v, command.StartUpgrade), PlanUndo: s.offer(v, command.PlanUndo), StartUndo: s.offer(v, command.UndoUpgrade),
		Pause: s.offer(v, command.PauseUpgrade), Resume: s.offer(v, command.ResumeUpgrade),
	}
	p.Work = s.readWork(r, v)
	p.Rollout = s.readRollout(r, s.readStatus(r))
	list, err := s.listBundles()
	if err != nil {
		p.Problem = err.Error()
	}
	for _, b := range list {
		p.Plan.Choices = append(p.Plan.Choices, b.ID())
	}
	if v.session.Role.Has(access.ReadJobs) {
		s.showPlan(&p)
	}
	if v.session.Role.Has(access.PlanUndo) {
		s.showUndo(&p)
	}
	return s.show(w, r, v, "upgrade", http.StatusOK, "Upgrade", p)
}

func (s *Site) readWork(r *http.Request, v visitor) (view workView) {
	var err error
	if view.State, err = s.Background.Read(r.Context()); err != nil {
		view.Problem = err.Error()
	}
	view.Progress = string(clean(last(view.Progress, maxText)))
	view.Visible = v.session.Role.Has(access.ReadJobs)
	return view
}

// last returns the end of a text.
func last(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "[…]" + s[len(s)-n:]
}

// showPlan adds the last plan of an upgrade, and offers to start it if it is good.
func (s *Site) showPlan(p *upgradePage) {
	job := s.jobs.Last(command.PlanUpgrade)
	if job == nil {
		return
	}
	state, _ := job.State()
	err := command.Document{Command: job.Command, JSON: state.Document}.Decode(&p.Read)
	if p.Job, p.Failure = job, state.Failure; err != nil {
		p.Failure = err.Error()
	}
	p.Empty = err == nil && len(p.Read.Plan.Nodes) == 0 && len(p.Read.Plan.Changes) == 0
	if p.Failure == "" && !p.Empty {
		p.Start.Choices = []string{job.Values["bundle"]}
	}
	shortenPlan(p)
}

// shortenPlan cuts the lists of a plan. The page links to the whole output.
func shortenPlan(p *upgradePage) {
	var more [3]int
	p.Read.Plan.Nodes = shorten(p.Read.Plan.Nodes, &more[0])
	p.Read.Plan.Changes = shorten(p.Read.Plan.Changes, &more[1])
	p.Read.Checks = shorten(p.Read.Checks, &more[2])
	p.More = more[0] + more[1] + more[2]
}

// undoPlan is what 'sealift upgrade undo --plan -o json' prints.
type undoPlan struct {
	From          text      `json:"from"`
	Time          time.Time `json:"time"`
	Nodes         []text    `json:"nodes"`
	ControlPlanes []text    `json:"controlPlanes"`
	Lost          struct {
		Unknown text   `json:"unknown"`
		Created []text `json:"created"`
		Changed []text `json:"changed"`
		Deleted []text `json:"deleted"`
	} `json:"lost"`
}

// showUndo adds the last plan of an undo.
func (s *Site) showUndo(p *upgradePage) {
	job := s.jobs.Last(command.PlanUndo)
	if job == nil {
		return
	}
	state, _ := job.State()
	err := command.Document{Command: job.Command, JSON: state.Document}.Decode(&p.Undo)
	if p.UndoJob, p.UndoFailure = job, state.Failure; err != nil {
		p.UndoFailure = err.Error()
	}
	lost := &p.Undo.Lost
	for _, list := range []*[]text{&lost.Created, &lost.Changed, &lost.Deleted} {
		shown := (*list)[:min(len(*list), maxLost)]
		p.MoreLost += len(*list) - len(shown)
		*list = shown
	}
}

// maxLost is how many objects of each kind of loss a page names.
const maxLost = 60

// upgradeEvents tells a page when what it shows of an upgrade has changed. It has no content: the page reads itself again.
func (s *Site) upgradeEvents(w http.ResponseWriter, r *http.Request, v visitor) error {
	seen := ""
	return s.stream(w, r, v, func(control *http.ResponseController) (<-chan struct{}, bool, error) {
		hash := sha256.New()
		shown := s.readRollout(r, s.readStatus(r))
		shown.Source.Time = time.Time{}
		if err := s.templates.ExecuteTemplate(hash, "rollout", shown); err != nil {
			return nil, true, err
		}
		work := s.readWork(r, v)
		_, _ = io.WriteString(hash, fmt.Sprint(work.State, work.Problem)) // a hash takes everything
		if now := hex.EncodeToString(hash.Sum(nil)); now != seen {
			first := seen == ""
			seen = now
			if !first {
				if _, err := fmt.Fprint(w, "event: change\ndata: \"\"\n\n"); err != nil {
					return nil, true, err
				}
			}
		}
		wake := make(chan struct{})
		time.AfterFunc(lookPause, func() { close(wake) })
		return wake, false, control.Flush()
	})
}

// lookPause is the time between looks at an upgrade that a page follows.
const lookPause = 5 * time.Second
