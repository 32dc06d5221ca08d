package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/rollout"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// before is a time that is d before noon.
func before(d time.Duration) time.Time { return noon.Add(-d) }

// parse reads targets such as "a:Waiting b:Working/90s c:Failed/zz", all of one wave. The time is how long the status
// lasts, zz marks a target that is asleep, and usb one to which changes are carried.
func parse(t *testing.T, wave int, text string) []rollout.Target {
	t.Helper()
	var targets []rollout.Target
	for word := range strings.FieldsSeq(text) {
		name, status, _ := strings.Cut(word, ":")
		status, age, _ := strings.Cut(status, "/")
		target := rollout.Target{Name: name, Wave: wave, Status: rollout.Status(status)}
		switch age {
		case "":
		case "zz", "usb":
			target.Occasional, target.Asleep, target.Carried = true, true, age == "usb"
		default:
			d, err := time.ParseDuration(age)
			if err != nil {
				t.Fatal(err)
			}
			target.Since = before(d)
		}
		targets = append(targets, target)
	}
	return targets
}

// print writes decisions as "a:Start b:Wait/Slot c:Keep/Working".
func print(r rollout.Result) string {
	var words []string
	for _, d := range r.Targets {
		switch d.Action {
		case rollout.Start:
			words = append(words, d.Name+":Start")
		case rollout.Wait:
			words = append(words, d.Name+":Wait/"+string(d.Reason))
		default:
			words = append(words, d.Name+":Keep/"+string(d.Status))
		}
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	number := func(n int) rollout.Amount { return rollout.Amount{Value: n} }
	percent := func(n int) rollout.Amount { return rollout.Amount{Value: n, Percent: true} }
	two := []rollout.Wave{{AtOnce: number(1)}, {AtOnce: number(2)}}
	for _, tt := range []struct {
		name   string
		spec   rollout.Spec
		first  string
		second string
		want   string
		phase  rollout.Phase
		again  time.Duration
	}{
		{name: "no targets", spec: rollout.Spec{Waves: two}, phase: rollout.Done},
		{
			name: "the first wave runs, one at a time", spec: rollout.Spec{Waves: two},
			first: "a:Waiting b:Waiting", second: "c:Waiting",
			want: "a:Start b:Wait/Slot c:Wait/Wave", phase: rollout.Progressing,
		},
		{
			name: "the second wave waits for the last of the first", spec: rollout.Spec{Waves: two},
			first: "a:Succeeded b:Working", second: "c:Waiting",
			want: "a:Keep/Succeeded b:Keep/Working c:Wait/Wave", phase: rollout.Progressing,
		},
		{
			name: "the second wave has its own limit", spec: rollout.Spec{Waves: two},
			first: "a:Succeeded b:Skipped", second: "c:Waiting d:Waiting e:Waiting",
			want: "a:Keep/Succeeded b:Keep/Skipped c:Start d:Start e:Wait/Slot", phase: rollout.Progressing,
		},
		{
			name: "work in a later wave takes a slot of an earlier one", spec: rollout.Spec{Waves: two},
			first: "a:Waiting", second: "c:Working",
			want: "a:Wait/Slot c:Keep/Working", phase: rollout.Progressing,
		},
		{
			name: "a failure stops all waves", spec: rollout.Spec{Waves: two},
			first: "a:Succeeded", second: "c:Failed d:Waiting e:Working",
			want: "a:Keep/Succeeded c:Keep/Failed d:Wait/Repair e:Keep/Working", phase: rollout.Stopped,
		},
		{
			name:  "a tolerated failure holds its slot",
			spec:  rollout.Spec{Waves: []rollout.Wave{{AtOnce: number(2), MaxFailures: number(1)}}},
			first: "a:Failed b:Waiting c:Waiting",
			want:  "a:Keep/Failed b:Start c:Wait/Slot", phase: rollout.Progressing,
		},
		{
			name: "a timeout gives its slot back",
			spec: rollout.Spec{
				Waves:    []rollout.Wave{{AtOnce: number(1), MaxFailures: percent(50)}},
				Deadline: new(time.Minute),
			},
			first: "a:Working/60s b:Waiting",
			want:  "a:Keep/TimedOut b:Start", phase: rollout.Progressing, again: time.Minute,
		},
		{
			name:  "timeouts above the limit stop it",
			spec:  rollout.Spec{Waves: []rollout.Wave{{}}, Deadline: new(time.Minute)},
			first: "a:Working/61s b:Waiting c:Working/50s",
			want:  "a:Keep/TimedOut b:Wait/Repair c:Keep/Working", phase: rollout.Stopped, again: 10 * time.Second,
		},
		{
			name:  "a tolerated timeout ends it",
			spec:  rollout.Spec{Waves: []rollout.Wave{{MaxFailures: number(1)}}, Deadline: new(time.Minute)},
			first: "a:Failed/61s b:Succeeded",
			want:  "a:Keep/TimedOut b:Keep/Succeeded", phase: rollout.Ended,
		},
		{
			name:  "a deadline of nothing ends at once",
			spec:  rollout.Spec{Waves: []rollout.Wave{{}}, Deadline: new(time.Duration(0))},
			first: "a:Working",
			want:  "a:Keep/TimedOut", phase: rollout.Stopped,
		},
		{
			name: "a soak holds the slot", spec: rollout.Spec{Waves: two, Soak: time.Minute},
			first: "a:Succeeded/40s b:Waiting",
			want:  "a:Keep/Soaking b:Wait/Slot", phase: rollout.Progressing, again: 20 * time.Second,
		},
		{
			name: "after the soak the next starts", spec: rollout.Spec{Waves: two, Soak: time.Minute},
			first: "a:Succeeded/60s b:Waiting",
			want:  "a:Keep/Succeeded b:Start", phase: rollout.Progressing,
		},
		{
			name: "a soak begins when the success is first seen", spec: rollout.Spec{Waves: two, Soak: time.Minute},
			first: "a:Succeeded", want: "a:Keep/Soaking", phase: rollout.Progressing, again: time.Minute,
		},
		{
			name: "a clock that is ahead does not prolong a soak", spec: rollout.Spec{Waves: two, Soak: time.Minute},
			first: "a:Succeeded/-9000h", want: "a:Keep/Soaking", phase: rollout.Progressing, again: time.Minute,
		},
		{
			name: "a pause holds the next one only", spec: rollout.Spec{Waves: two, Paused: true},
			first: "a:Working b:Waiting", second: "c:Waiting",
			want: "a:Keep/Working b:Wait/Resume c:Wait/Wave", phase: rollout.Paused,
		},
		{
			name: "a pause after the end changes nothing", spec: rollout.Spec{Waves: two, Paused: true},
			first: "a:Succeeded", want: "a:Keep/Succeeded", phase: rollout.Done,
		},
		{
			name:  "a percentage is rounded up",
			spec:  rollout.Spec{Waves: []rollout.Wave{{AtOnce: percent(25)}}},
			first: "a:Waiting b:Waiting c:Waiting d:Waiting e:Waiting",
			want:  "a:Start b:Start c:Wait/Slot d:Wait/Slot e:Wait/Slot", phase: rollout.Progressing,
		},
		{
			name: "who sleeps holds no slot and no wave", spec: rollout.Spec{Waves: []rollout.Wave{{AtOnce: number(1)}, {AtOnce: number(1)}}},
			first: "a:Waiting/zz b:Working/zz", second: "c:Waiting",
			want: "a:Wait/WakeUp b:Keep/Working c:Start", phase: rollout.Progressing,
		},
		{
			name:  "a change is carried to a target that sleeps when its wave runs, and takes no slot",
			spec:  rollout.Spec{Waves: []rollout.Wave{{AtOnce: number(1)}, {AtOnce: number(1)}}},
			first: "a:Waiting/usb b:Waiting c:Waiting", second: "d:Waiting/usb",
			want: "a:Start b:Start c:Wait/Slot d:Wait/Wave", phase: rollout.Progressing,
		},
		{
			name: "a change is carried after the wave, too", spec: rollout.Spec{Waves: two},
			first: "a:Waiting/usb b:Succeeded", second: "c:Waiting",
			want: "a:Start b:Keep/Succeeded c:Start", phase: rollout.Progressing,
		},
		{
			name: "nothing is carried while the rollout is paused", spec: rollout.Spec{Waves: two, Paused: true},
			first: "a:Waiting/usb", want: "a:Wait/Resume", phase: rollout.Paused,
		},
		{
			name: "nothing is carried after a failure", spec: rollout.Spec{Waves: two},
			first: "a:Waiting/usb b:Failed", want: "a:Wait/Repair b:Keep/Failed", phase: rollout.Stopped,
		},
		{
			name: "a rollout whose last targets sleep goes on", spec: rollout.Spec{Waves: two},
			first: "a:Waiting/zz b:Succeeded", want: "a:Wait/WakeUp b:Keep/Succeeded", phase: rollout.Progressing,
		},
		{
			name:  "a mandatory wave that sleeps has proved nothing",
			spec:  rollout.Spec{Waves: []rollout.Wave{{Mandatory: true}, {}}},
			first: "a:Waiting/zz b:Skipped", second: "c:Waiting",
			want: "a:Wait/WakeUp b:Keep/Skipped c:Wait/Wave", phase: rollout.Progressing,
		},
		{
			name:  "one success of a mandatory wave is enough while the others sleep",
			spec:  rollout.Spec{Waves: []rollout.Wave{{Mandatory: true}, {}}},
			first: "a:Waiting/zz b:Succeeded", second: "c:Waiting",
			want: "a:Wait/WakeUp b:Keep/Succeeded c:Start", phase: rollout.Progressing,
		},
		{
			name:  "a mandatory wave tolerates nothing",
			spec:  rollout.Spec{Waves: []rollout.Wave{{Mandatory: true, MaxFailures: percent(100)}, {}}},
			first: "a:Failed b:Succeeded", second: "c:Waiting",
			want: "a:Keep/Failed b:Keep/Succeeded c:Wait/Repair", phase: rollout.Stopped,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			targets := slices.Concat(parse(t, 0, tt.first), parse(t, 1, tt.second))
			got, err := rollout.Decide(tt.spec, targets, rollout.State{}, noon)
			if err != nil {
				t.Fatal(err)
			}
			if text := print(got); text != tt.want || got.Phase != tt.phase {
				t.Errorf("got  %s %s\nwant %s %s", got.Phase, text, tt.phase, tt.want)
			}
			var again time.Duration
			if !got.Again.IsZero() {
				again = got.Again.Sub(noon)
			}
			if again != tt.again {
				t.Errorf("looks again after %v, want %v", again, tt.again)
			}
		})
	}
}

func TestOrderPrecedesName(t *testing.T) {
	targets := []rollout.Target{
		{Name: "a", Status: rollout.Waiting, Order: 1},
		{Name: "z", Status: rollout.Waiting},
	}
	got, err := rollout.Decide(rollout.Spec{Waves: []rollout.Wave{{AtOnce: rollout.Amount{Value: 1}}}}, targets, rollout.State{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if want := "z:Start a:Wait/Slot"; print(got) != want {
		t.Errorf("got %s, want %s", print(got), want)
	}
}

// TestStartIsRepeatedUntilObserved shows that a caller which was killed after storing the state starts the same target,
// although one whose name sorts before it has joined.
func TestStartIsRepeatedUntilObserved(t *testing.T) {
	spec := rollout.Spec{Waves: []rollout.Wave{{AtOnce: rollout.Amount{Value: 1}}}, Deadline: new(time.Minute)}
	got, err := rollout.Decide(spec, parse(t, 0, "b:Waiting"), rollout.State{}, noon)
	if err != nil || print(got) != "b:Start" {
		t.Fatal(print(got), err)
	}
	got, err = rollout.Decide(spec, parse(t, 0, "a:Waiting b:Waiting"), got.State, noon.Add(time.Second))
	if err != nil || print(got) != "a:Wait/Slot b:Start" {
		t.Fatal(print(got), err)
	}
	spec.Paused = true
	got, err = rollout.Decide(spec, parse(t, 0, "a:Waiting b:Waiting"), got.State, noon.Add(2*time.Second))
	if err != nil || print(got) != "a:Wait/Resume b:Start" {
		t.Fatal(print(got), err)
	}
	got, err = rollout.Decide(spec, parse(t, 0, "a:Waiting b:Waiting"), got.State, noon.Add(time.Minute))
	if err != nil || print(got) != "a:Wait/Repair b:Keep/TimedOut" {
		t.Fatal("a start that nobody sees does not time out:", print(got), err)
	}
	spec.Change = "another"
	got, err = rollout.Decide(spec, parse(t, 0, "a:Waiting b:Waiting"), got.State, noon.Add(time.Minute))
	if err != nil || print(got) != "a:Wait/Resume b:Wait/Resume" {
		t.Fatal("another change does not begin a new rollout:", print(got), err)
	}
}

// TestFirstObservationIsRecorded shows that a status without a time counts from when it was first seen.
func TestFirstObservationIsRecorded(t *testing.T) {
	spec := rollout.Spec{Waves: []rollout.Wave{{}}, Soak: time.Minute}
	var state rollout.State
	for _, look := range []struct {
		after time.Duration
		want  string
	}{{0, "a:Keep/Soaking"}, {59 * time.Second, "a:Keep/Soaking"}, {time.Minute, "a:Keep/Succeeded"}} {
		got, err := rollout.Decide(spec, parse(t, 0, "a:Succeeded"), state, noon.Add(look.after))
		if err != nil || print(got) != look.want {
			t.Fatalf("after %v: got %s, want %s: %v", look.after, print(got), look.want, err)
		}
		state = got.State
	}
}

// TestClockSetBackEndsNoRolloutLate notes a start and a success fourteen months ahead, and sets the clock back.
func TestClockSetBackEndsNoRolloutLate(t *testing.T) {
	spec := rollout.Spec{Waves: []rollout.Wave{{}}, Deadline: new(time.Minute), Soak: time.Minute}
	state := rollout.State{}
	for _, look := range []struct {
		at           time.Time
		target, want string
	}{
		{noon.AddDate(1, 2, 0), "a:Waiting b:Succeeded", "a:Start b:Keep/Soaking"},
		{noon, "a:Waiting b:Succeeded", "a:Start b:Keep/Soaking"},
		{noon.Add(59 * time.Second), "a:Waiting b:Succeeded", "a:Start b:Keep/Soaking"},
		{noon.Add(time.Minute), "a:Waiting b:Succeeded", "a:Keep/TimedOut b:Keep/Succeeded"},
	} {
		got, err := rollout.Decide(spec, parse(t, 0, look.target), state, look.at)
		if err != nil || print(got) != look.want {
			t.Fatalf("at %v: got %s, want %s: %v", look.at, print(got), look.want, err)
		}
		state = got.State
	}
}

// TestDeadlineCountsContactOnly shows that the deadline of a ship runs while it is in port.
func TestDeadlineCountsContactOnly(t *testing.T) {
	spec := rollout.Spec{Waves: []rollout.Wave{{}}, Deadline: new(time.Minute)}
	var state rollout.State
	look := func(at time.Duration, asleep bool, lastSeen time.Duration, want rollout.Status) {
		t.Helper()
		ship := rollout.Target{
			Name: "ship", Status: rollout.Working, Since: noon, Occasional: true, Asleep: asleep, LastSeen: noon.Add(lastSeen),
		}
		got, err := rollout.Decide(spec, []rollout.Target{ship}, state, noon.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		if got.Targets[0].Status != want {
			t.Fatalf("after %v: %s, want %s", at, got.Targets[0].Status, want)
		}
		state = got.State
	}
	look(0, false, 0, rollout.Working)
	look(20*time.Second, false, 20*time.Second, rollout.Working)
	look(5*time.Hour, true, 30*time.Second, rollout.Working) // 30 s of contact, then five hours at sea
	look(6*time.Hour, false, 6*time.Hour, rollout.Working)
	look(6*time.Hour+29*time.Second, false, 0, rollout.Working)
	kept := state
	look(6*time.Hour+30*time.Second, false, 0, rollout.TimedOut)
	state = kept
	look(9*time.Hour, true, 6*time.Hour+29*time.Second, rollout.Working)
}

func TestDecideRefuses(t *testing.T) {
	waves := []rollout.Wave{{}}
	for _, tt := range []struct {
		name    string
		spec    rollout.Spec
		targets []rollout.Target
		want    string
	}{
		{"a wave that does not exist", rollout.Spec{}, []rollout.Target{{Name: "a", Status: rollout.Waiting}}, `target "a": wave 0 does not exist; there are 0`},
		{"two of one name", rollout.Spec{Waves: waves}, slices.Repeat([]rollout.Target{{Name: "a", Status: rollout.Waiting}}, 2), `target "a" is listed twice`},
		{"a status that nobody observes", rollout.Spec{Waves: waves}, []rollout.Target{{Name: "a", Status: rollout.Soaking}}, `"Soaking" is not an observable status`},
		{"a negative soak", rollout.Spec{Waves: waves, Soak: -1}, nil, "must not be negative"},
		{"a negative deadline", rollout.Spec{Waves: waves, Deadline: new(time.Duration(-1))}, nil, "must not be negative"},
		{"a negative amount", rollout.Spec{Waves: []rollout.Wave{{AtOnce: rollout.Amount{Value: -1}}}}, nil, "must not be negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rollout.Decide(tt.spec, tt.targets, rollout.State{}, noon)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestReportsCountAsContactOfCarriedTarget follows one over weeks: only the time from one report to another counts.
func TestReportsCountAsContactOfCarriedTarget(t *testing.T) {
	spec := rollout.Spec{Waves: []rollout.Wave{{}}, Deadline: new(time.Hour), Soak: time.Hour}
	target := rollout.Target{Name: "ship", Status: rollout.Waiting, Occasional: true, Asleep: true, Carried: true, LastSeen: before(9 * 24 * time.Hour)}
	state := rollout.State{}
	now := noon
	day := 24 * time.Hour
	for _, step := range []struct {
		what   string
		after  time.Duration
		status rollout.Status
		seen   time.Duration // before now; zero keeps the last report
		want   rollout.Status
	}{
		{"the change is packed", 0, rollout.Waiting, 0, rollout.Working},
		{"nothing is heard for weeks", 20 * day, rollout.Working, 0, rollout.Working},
		{"the first report: it is at work", day, rollout.Working, day, rollout.Working},
		{"a report of half an hour later", day, rollout.Working, 2*day - 30*time.Minute, rollout.Working},
		{"a report of two hours later", day, rollout.Working, 3*day - 2*time.Hour, rollout.TimedOut},
		{"it is successful", day, rollout.Succeeded, day, rollout.Soaking},
		{"nothing is heard for weeks", 20 * day, rollout.Succeeded, 0, rollout.Soaking},
		{"a report of an hour later", day, rollout.Succeeded, 22*day - time.Hour, rollout.Succeeded},
	} {
		now = now.Add(step.after)
		target.Status = step.status
		if step.seen != 0 {
			target.LastSeen = now.Add(-step.seen)
		}
		got, err := rollout.Decide(spec, []rollout.Target{target}, state, now)
		if err != nil {
			t.Fatal(err)
		}
		if d := got.Targets[0]; d.Status != step.want || d.AtWork {
			t.Errorf("%s: %+v, want %s", step.what, d, step.want)
		}
		state = got.State
	}
}
