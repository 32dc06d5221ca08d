package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/expression"
	"github.com/sealift/sealift/fleet/ocm"
)

// parse reads a placement as users write it.
func parse(t testing.TB, text string) *ocm.Placement {
	t.Helper()
	p := &ocm.Placement{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func cluster(name string, labels ...string) *ocm.ManagedCluster {
	c := &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		c.Labels[key] = value
	}
	return c
}

// TestUnknownSelectorSelectsNothing uses a set whose members are unknown.
func TestUnknownSelectorSelectsNothing(t *testing.T) {
	s := ocm.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec.ClusterSelector.SelectorType = "errorType"
	members := []*ocm.ManagedCluster{cluster("a", ocm.ClusterSetLabel+"=s")}
	got, err := Candidates([]string{"s"}, []ocm.ManagedClusterSet{s}, members)
	if err == nil || len(got) != 0 {
		t.Errorf("got %v: %v", got, err)
	}
}

// TestMistakesAreNamed has placements that cannot be scheduled. Each says which part found the mistake.
func TestMistakesAreNamed(t *testing.T) {
	for spec, want := range map[string]string{
		`{tolerations: [{operator: Exists, value: x}]}`:                                                              "TaintToleration:If the operator is Exists, the value should be empty.",
		`{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Near}]}}}]}`: `Predicate:"Near" is not a valid label selector operator`,
		`{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["1 +"]}}}]}`:                        `Predicate:CEL expression "1 +": `,
		`{prioritizerPolicy: {mode: Random}}`:                                                                        ":incorrect prioritizer policy mode: Random",
		`{prioritizerPolicy: {configurations: [{weight: 1}]}}`:                                                       ":scoreCoordinate field is required",
		`{prioritizerPolicy: {configurations: [{scoreCoordinate: {type: BuiltIn, builtIn: Luck}}]}}`:                 ":incorrect builtin prioritizer: Luck",
		`{prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn}}]}}`:                                  ":addOn should not be empty",
	} {
		_, err := Schedule(parse(t, "spec: "+spec), []*ocm.ManagedCluster{cluster("a")}, Known{Now: newYear})
		var m *Misconfigured
		if !errors.As(err, &m) || !strings.HasPrefix(m.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", spec, err, want)
		}
	}
	p := parse(t, `{spec: {decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: many}}}}`)
	if _, _, err := Group(p, nil); err == nil || err.Error() != ":many invalid type: string is not a percentage" {
		t.Error(err)
	}
}

func compileFor(known Known, texts ...string) (*expressions, error) {
	env, err := environment(known)
	if err != nil {
		return nil, err
	}
	return compileCEL(texts, env)
}

// TestCostOfAllClustersIsBounded has placements that are cheap for one cluster, or for one predicate.
func TestCostOfAllClustersIsBounded(t *testing.T) {
	var clusters []*ocm.ManagedCluster
	for i := range 2000 {
		clusters = append(clusters, cluster(fmt.Sprintf("c%04d", i), "a=b"))
	}
	const exceeded = "Predicate:CEL evaluation budget exceeded by all predicates"
	const one = `{requiredClusterSelector: {celSelector: {celExpressions: [%s]}}}`
	loop := `'[1,2,3,4,5,6,7,8,9,10].all(a, ` + strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(b, `, 5) + `true` + strings.Repeat(`)`, 6) + `'`
	many := func(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ") }
	for what, c := range map[string]struct {
		predicates string
		number     int
		want       string
	}{
		"usual":                     {fmt.Sprintf(one, `'managedCluster.metadata.labels["a"] == "b"'`), 2000, ""},
		"many expressions":          {fmt.Sprintf(one, many(1000, `"true"`)), 2000, exceeded},
		"many predicates":           {many(900, fmt.Sprintf(one, `"false"`)), 2000, exceeded},
		"more than may be compiled": {fmt.Sprintf(one, many(20_000, `"true"`)), 1, exceeded},
		"a loop for few clusters":   {fmt.Sprintf(one, loop), 5, ""},
		"labels come first":         {`{requiredClusterSelector: {labelSelector: {matchLabels: {a: c}}, celSelector: {celExpressions: [` + loop + `]}}}`, 2000, ""},
	} {
		_, err := Schedule(parse(t, "spec: {predicates: ["+c.predicates+"]}"), clusters[:c.number], Known{Now: newYear})
		var m *Misconfigured
		if (err != nil) != (c.want != "") || err != nil && (!errors.As(err, &m) || !strings.HasPrefix(m.Error(), c.want)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCEL evaluates what expressions may use.
func TestCEL(t *testing.T) {
	c := cluster("rome", "version=1.36.3", `json={"cpu":4}`)
	c.Status.ClusterClaims = []ocm.ClusterClaim{{Name: "region", Value: "eu-1"}}
	reports := []ocm.AddOnPlacementScore{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "speed"}, Status: ocm.AddOnPlacementScoreStatus{Scores: []ocm.Score{{Name: "disk", Value: 80}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "old"}, Status: ocm.AddOnPlacementScoreStatus{ValidUntil: &metav1.Time{Time: newYear.Add(-1)}}},
	}
	for text, want := range map[string]bool{
		`managedCluster.metadata.name.startsWith("ro")`:                                               true,
		`managedCluster.metadata.labels["missing"] == "x"`:                                            false,
		`managedCluster.metadata.labels[?"missing"].orValue("x") == "x"`:                              true,
		`semver(managedCluster.metadata.labels["version"]).isGreaterThan(semver("1.36.0"))`:           true,
		`managedCluster.metadata.labels["json"].parseJSON().cpu > 2`:                                  true,
		`managedCluster.metadata.labels["version"].parseJSON().cpu > 2`:                               false,
		`managedCluster.status.clusterClaims.exists(c, c.name == "region" && c.value.matches("^eu"))`: true,
		`managedCluster.scores("speed").exists(s, s.value > 50)`:                                      true,
		`managedCluster.scores("none").all(s, s.value > 50)`:                                          false,
		`managedCluster.scores("old").all(s, s.value > 50)`:                                           false,
		`quantity("1Gi").isGreaterThan(quantity("1M")) && isIP("10.0.0.1") && isURL("https://a.b")`:   true,
		`[3, 1, 2].isSorted()`: false,
		`"text"`:               false,
	} {
		e, err := compileFor(Known{Now: newYear, Scores: reports}, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e.match(c, expression.Budget); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	endless := `[1,2,3,4,5,6,7,8,9,10].all(a, ` + strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(b, `, 8) + `true` + strings.Repeat(`)`, 9)
	e, err := compileFor(Known{}, endless)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if e.match(c, expression.Budget) || time.Since(began) > 10*time.Second {
		t.Errorf("an expression without an end matched, or took %v", time.Since(began))
	}
}

// TestOwnFunctionsCostWhatTheyRead calls functions on much text and on many scores, a thousand times.
func TestOwnFunctionsCostWhatTheyRead(t *testing.T) {
	report := ocm.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "many"}}
	report.Status.Scores = make([]ocm.Score, 10_000)
	c := cluster("rome")
	c.Annotations = map[string]string{"text": "[" + strings.Repeat("[],", 10_000) + "[]]"}
	for _, call := range []string{`managedCluster.metadata.annotations["text"].parseJSON()`, `managedCluster.scores("many")`} {
		for loops, want := range map[int]bool{0: true, 3: false} {
			text := strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(a, `, loops) + call + `.size() > 9999` + strings.Repeat(`)`, loops)
			e, err := compileFor(Known{Now: newYear, Scores: []ocm.AddOnPlacementScore{report}}, text)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.match(c, expression.Budget); got != want {
				t.Errorf("%s in %d loops is %v", call, loops, got)
			}
		}
	}
}

// TestLargeGroupsHaveSeveralDecisions shows that a decision has at most 100 clusters (O-43).
func TestLargeGroupsHaveSeveralDecisions(t *testing.T) {
	var selected []*ocm.ManagedCluster
	for i := range 250 {
		selected = append(selected, cluster(fmt.Sprintf("c%03d", i)))
	}
	p := &ocm.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(150)
	decisions, groups, err := Group(p, selected)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, d := range decisions {
		sizes = append(sizes, len(d.Status.Decisions))
	}
	if !slices.Equal(sizes, []int{100, 50, 100}) || !slices.Equal(groups[1].Decisions, []string{"p-decision-3"}) {
		t.Errorf("got %v and %+v", sizes, groups)
	}
	decisions, _, err = Group(p, nil)
	if err != nil || len(decisions) != 1 || len(decisions[0].Status.Decisions) != 0 {
		t.Errorf("without clusters: %+v %v", decisions, err)
	}
}

func TestSortByScore(t *testing.T) {
	p := parse(t, `{spec: {sortBy: Score, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 1}}}}`)
	decisions, _, err := Group(p, []*ocm.ManagedCluster{cluster("b"), cluster("a")})
	if err != nil || decisions[0].Status.Decisions[0].ClusterName != "b" {
		t.Errorf("got %+v %v", decisions, err)
	}
}

// TestSets has the two kinds of sets, and which of them a placement may use (O-39, X-18).
func TestSets(t *testing.T) {
	exclusive := ocm.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
	global := ocm.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "global"}}
	global.Spec.ClusterSelector = ocm.SetSelector{SelectorType: ocm.LabelSelector, LabelSelector: &metav1.LabelSelector{}}
	none := ocm.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	none.Spec.ClusterSelector = ocm.SetSelector{SelectorType: ocm.LabelSelector}
	sets := []ocm.ManagedClusterSet{exclusive, global, none}
	clusters := []*ocm.ManagedCluster{cluster("b"), cluster("a", ocm.ClusterSetLabel+"=eu")}
	for name, want := range map[string]string{"eu": "a", "global": "a b", "none": "", "missing": ""} {
		got, err := Candidates([]string{name}, sets, clusters)
		if err != nil || strings.Join(names(got), " ") != want {
			t.Errorf("%s has %v, want %s: %v", name, names(got), want, err)
		}
	}
	binding := func(namespace, name, set string) ocm.ManagedClusterSetBinding {
		b := ocm.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		b.Spec.ClusterSet = set
		return b
	}
	bound := Bound("ns", []ocm.ManagedClusterSetBinding{
		binding("ns", "global", "global"), binding("ns", "eu", "eu"), binding("other", "none", "none"),
		binding("ns", "misnamed", "none"), binding("ns", "missing", "missing"),
	}, sets)
	if !slices.Equal(bound, []string{"eu", "global"}) || !slices.Equal(Eligible(bound, []string{"eu", "none"}), []string{"eu"}) {
		t.Errorf("bound are %v", bound)
	}
	broken := ocm.ManagedClusterSet{}
	broken.Spec.ClusterSelector.SelectorType = "Guess"
	members := []ocm.ManagedCluster{*clusters[0], *clusters[1]}
	for _, tt := range []struct {
		got  Condition
		want string
	}{
		{Emptiness(global, members), "ClusterSetEmpty False ClustersSelected 2 ManagedClusters selected"},
		{Emptiness(exclusive, members), "ClusterSetEmpty False ClustersSelected 1 ManagedClusters selected"},
		{Emptiness(exclusive, members[:1]), "ClusterSetEmpty True NoClusterMatched No ManagedCluster selected"},
		{Emptiness(none, members), "ClusterSetEmpty True NoClusterMatched No ManagedCluster selected"},
		{Emptiness(broken, members), "ClusterSetEmpty Unknown InvalidSelector ManagedClusterSet  has selectorType"},
		{Boundness(binding("ns", "eu", "eu"), sets), "Bound True ClusterSetBound "},
		{Boundness(binding("ns", "missing", "missing"), sets), "Bound False ClusterSetNotFound there is no ManagedClusterSet missing"},
		{Boundness(binding("ns", "misnamed", "eu"), sets), "Bound False NameMismatch name the binding like its set, eu"},
	} {
		got := strings.Join([]string{tt.got.Type, tt.got.Status, tt.got.Reason, tt.got.Message}, " ")
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add(`{predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.name == 'a'"]}}}]}`)
	f.Add(`{numberOfClusters: -1, tolerations: [{operator: Exists, tolerationSeconds: 9223372036854775807}]}`)
	f.Add(`{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: "1e9%", decisionGroups: [{groupName: a}]}}}`)
	f.Fuzz(func(t *testing.T, spec string) {
		p := &ocm.Placement{}
		if yaml.Unmarshal([]byte(spec), &p.Spec) != nil {
			return
		}
		tainted := cluster("b", "x=y")
		tainted.Spec.Taints = []ocm.Taint{{Key: "k", Effect: ocm.NoSelect}}
		r, err := Schedule(p, []*ocm.ManagedCluster{cluster("a"), tainted}, Known{Now: newYear})
		if err != nil {
			return
		}
		decisions, _, err := Group(p, r.Selected)
		if err != nil {
			return
		}
		count := 0
		for _, d := range decisions {
			count += len(d.Status.Decisions)
		}
		if count != len(r.Selected) {
			t.Fatalf("%d clusters are decided, %d selected", count, len(r.Selected))
		}
	})
}

// BenchmarkSchedule decides over 10,000 clusters with an expression.
func BenchmarkSchedule(b *testing.B) {
	p := parse(b, `{spec: {predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.labels['env'] == 'prod'"]}}}]}}`)
	var clusters []*ocm.ManagedCluster
	for i := range 10000 {
		clusters = append(clusters, cluster(fmt.Sprint("c", i), "env=prod"))
	}
	for b.Loop() {
		r, err := Schedule(p, clusters, Known{Now: newYear})
		if err != nil || len(r.Selected) != 10000 {
			b.Fatal(len(r.Selected), err)
		}
		if _, _, err := Group(p, r.Selected); err != nil {
			b.Fatal(err)
		}
	}
}
