package page

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/console/command"
)

// maxCommands is how many clusters a page about a fleet has commands for.
const maxCommands = 20

// resourceName is the form of names of clusters and add-ons (RFC 1123). The console shows other names, but puts them into no URL and no command.
var resourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// fleetPage is what all pages about a fleet have.
type fleetPage struct {
	Setup  string // the command that switches the pages on, while they are off
	Source source
	More   int // rows that are left out
}

// readFleet runs a command of the fleet.
func (s *Site) readFleet(r *http.Request, into any, words ...string) (p fleetPage) {
	if s.Settings.Fleet.Program == "" {
		p.Setup = command.Shell("sealift-console", "on", "--fleet", "FILE")
		return p
	}
	d := s.fleet.Read(r.Context(), s.Settings.Fleet.Words(words...)...)
	p.Source = sourceOf(d, d.Decode(into))
	return p
}

// fleetCluster is a line of 'sealift fleet clusters -o json'.
type fleetCluster struct {
	Name       text      `json:"name"`
	Available  text      `json:"available"`
	Seen       time.Time `json:"lastSeen"`
	Version    text      `json:"version"`
	Set        text      `json:"set"`
	AddOns     int       `json:"addOns"`
	Occasional bool      `json:"occasional"`
	Carried    bool      `json:"carried"`
	Asleep     bool      `json:"asleep"`
	Message    text      `json:"message"`
}

// Contact says how the hub reaches the cluster.
func (c fleetCluster) Contact() string {
	switch {
	case c.Carried:
		return "carried"
	case c.Asleep:
		return "now and then, away"
	case c.Occasional:
		return "now and then"
	}
	return "always"
}

// Lost reports whether the cluster should be in contact, and is not, or is not well.
func (c fleetCluster) Lost() bool { return c.Available != "True" && !c.Asleep }

// fleetClustersPage is the data of the page with the clusters.
type fleetClustersPage struct {
	fleetPage
	Clusters []fleetCluster // the lost ones first
	Lost     int
	Join     string
}

func (s *Site) fleetClusters(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := fleetClustersPage{Join: s.Settings.Fleet.Line("join", "CLUSTER", "--out", "FILE")}
	p.fleetPage = s.readFleet(r, &p.Clusters, "clusters")
	for _, c := range p.Clusters {
		if c.Lost() {
			p.Lost++
		}
	}
	urgentFirst(p.Clusters, fleetCluster.Lost)
	p.Clusters = shorten(p.Clusters, &p.More)
	return s.show(w, r, v, "fleet-clusters", http.StatusOK, "Fleet", p)
}

// urgentFirst moves the elements that need attention to the front.
func urgentFirst[T any](list []T, urgent func(T) bool) {
	slices.SortStableFunc(list, func(a, b T) int {
		switch {
		case urgent(a) == urgent(b):
			return 0
		case urgent(a):
			return -1
		}
		return 1
	})
}

// fleetAddOn is an add-on of 'sealift fleet status -o json'. Only the status of one add-on has rows.
type fleetAddOn struct {
	Name       text       `json:"name"`
	Clusters   int        `json:"clusters"`
	Available  int        `json:"available"`
	Unhealthy  int        `json:"unhealthy"`
	Unknown    int        `json:"unknown"`
	Paused     bool       `json:"paused"`
	Placements []progress `json:"placements"`
	Rows       []fleetRow `json:"rows"`
}

// progress is the rollout over one placement.
type progress struct {
	Placement text `json:"placement"`
	Done      bool `json:"done"`
	Message   text `json:"message"`
}

// fleetRow is an add-on on one cluster.
type fleetRow struct {
	Cluster   text      `json:"cluster"`
	Status    text      `json:"status"`
	Wave      text      `json:"wave"`
	Reason    text      `json:"waitsFor"`
	Available text      `json:"available"`
	Message   text      `json:"message"`
	Seen      time.Time `json:"lastSeen"`
	Skipped   bool      `json:"skipped"`
}

// Done reports whether all placements have the add-on.
func (a fleetAddOn) Done() bool {
	return !slices.ContainsFunc(a.Placements, func(p progress) bool { return !p.Done })
}

// Path is the page of the add-on; "" for a name that cannot be one.
func (a fleetAddOn) Path() string {
	if !resourceName.MatchString(string(a.Name)) {
		return ""
	}
	return "/fleet/rollouts/" + string(a.Name)
}

// Wrong reports whether somebody should look at the row.
func (r fleetRow) Wrong() bool {
	return !r.Skipped && (r.Status == "Failed" || r.Status == "TimedOut" || r.Available == "False")
}

// fleetRolloutsPage is the data of the page with the add-ons.
type fleetRolloutsPage struct {
	fleetPage
	AddOns []fleetAddOn // the unhealthy ones first
}

func (s *Site) fleetRollouts(w http.ResponseWriter, r *http.Request, v visitor) error {
	var p fleetRolloutsPage
	p.fleetPage = s.readFleet(r, &p.AddOns, "status")
	urgentFirst(p.AddOns, func(a fleetAddOn) bool { return a.Unhealthy > 0 })
	p.AddOns = shorten(p.AddOns, &p.More)
	return s.show(w, r, v, "fleet-rollouts", http.StatusOK, "Rollouts", p)
}

// fleetRolloutPage is the data of the page of one add-on.
type fleetRolloutPage struct {
	fleetPage
	AddOn  fleetAddOn
	Stages []fleetStage
	Plan   string
	Toggle string   // pauses the rollout, or resumes it
	Why    []string // commands that say why a cluster does not go on
}

// fleetStage is a stage of a rollout with the clusters that are in it.
type fleetStage struct {
	Name, About string
	Rows        []fleetRow
}

// fleetRollout shows one add-on. Its name comes from a URL, so no command runs with it unless the hub lists it.
func (s *Site) fleetRollout(w http.ResponseWriter, r *http.Request, v visitor) error {
	name := r.PathValue("name")
	var all []fleetAddOn
	if p := s.readFleet(r, &all, "status"); p.Source.Problem != "" || p.Setup != "" {
		return s.show(w, r, v, "fleet-rollout", http.StatusOK, "Rollout", fleetRolloutPage{fleetPage: p})
	}
	if !resourceName.MatchString(name) || !slices.ContainsFunc(all, func(a fleetAddOn) bool { return string(a.Name) == name }) {
		return errNotFound
	}
	f := s.Settings.Fleet
	p := fleetRolloutPage{Plan: f.Line("plan", name, "-f", "FILE"), Toggle: f.Line("pause", name)}
	p.fleetPage = s.readFleet(r, &p.AddOn, "status", name)
	if p.AddOn.Paused {
		p.Toggle = f.Line("resume", name)
	}
	urgentFirst(p.AddOn.Rows, fleetRow.Wrong)
	for _, row := range p.AddOn.Rows {
		if len(p.Why) < maxCommands && resourceName.MatchString(string(row.Cluster)) && (row.Wrong() || row.Reason != "") {
			p.Why = append(p.Why, f.Line("why", name, "--cluster", string(row.Cluster)))
		}
	}
	p.Stages = fleetStages(shorten(p.AddOn.Rows, &p.More))
	return s.show(w, r, v, "fleet-rollout", http.StatusOK, "Rollout of "+name, p)
}

// fleetStages sorts clusters into the stages of a rollout. Those with a status that this console does not know are in the first one.
func fleetStages(rows []fleetRow) []fleetStage {
	if len(rows) == 0 {
		return nil
	}
	stages := []fleetStage{{Name: "waiting", About: "does not have the change"}, {Name: "working", About: "has the change, and is not done"},
		{Name: "failed", About: "failed, or took too long"}, {Name: "soaking", About: "is done, and is watched"}, {Name: "done", About: "has the change, and is well"}}
	at := map[text]int{"Working": 1, "Failed": 2, "TimedOut": 2, "Soaking": 3, "Succeeded": 4}
	for _, row := range rows {
		stage := &stages[at[row.Status]]
		stage.Rows = append(stage.Rows, row)
	}
	return stages
}

// carriedCluster is a line of 'sealift fleet carried -o json'.
type carriedCluster struct {
	Name     text      `json:"name"`
	Reported time.Time `json:"reported"`
	Works    int       `json:"works"`
	Waiting  []text    `json:"waiting"`
	Removed  []text    `json:"removed"`
	Failed   []text    `json:"failed"`
}

// Waits reports whether the cluster needs a parcel, or its report.
func (c carriedCluster) Waits() bool { return len(c.Waiting)+len(c.Removed) > 0 }

// carriedPage is the data of the page with the clusters without a connection.
type carriedPage struct {
	fleetPage
	Clusters []carriedCluster // those that wait first
	Pack     []string
	Take     string
}

func (s *Site) fleetCarried(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := carriedPage{Take: s.Settings.Fleet.Line("take", "REPORT")}
	p.fleetPage = s.readFleet(r, &p.Clusters, "carried")
	urgentFirst(p.Clusters, func(c carriedCluster) bool { return c.Waits() || len(c.Failed) > 0 })
	for _, c := range p.Clusters {
		if c.Waits() && len(p.Pack) < maxCommands && resourceName.MatchString(string(c.Name)) {
			p.Pack = append(p.Pack, s.Settings.Fleet.Line("pack", string(c.Name), "--out", "FOLDER"))
		}
	}
	p.Clusters = shorten(p.Clusters, &p.More)
	return s.show(w, r, v, "fleet-carried", http.StatusOK, "Carried", p)
}

// joinNames joins names for a cell of a table.
func joinNames(names []text) string {
	var all []string
	for _, name := range names[:min(len(names), maxNames)] {
		all = append(all, string(name))
	}
	if len(all) < len(names) {
		all = append(all, "…")
	}
	return cmp.Or(strings.Join(all, ", "), "–")
}

// maxNames is how many names a cell has.
const maxNames = 5
