package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// testShownOnce: what happens while a synchronization waits for its turn, or for its second try, is in it. Upstream empties its buffer of
// events when it reads the objects; otherwise a hook gets events with states older than those it has seen.
func testShownOnce(s *site) {
	s.apply(configMap("shown", "a", "") + "---\n" + configMap("shown", "gone", ""))
	s.hook("first.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "shown", ", queue: q, waitForSynchronization: false, executeHookOnEvent: []")+"]",
		`until [ -e "$TRACE.go" ]; do sleep 0.05; done`)
	s.hook("plain.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "shown", ", queue: q, waitForSynchronization: false")+"]",
		`grep -q Synchronization "$BINDING_CONTEXT_PATH" || exit 0; until [ -e "$TRACE.fail" ]; do sleep 0.05; done; [ -e "$TRACE.failed" ] || { touch "$TRACE.failed"; exit 1; }`)
	s.hook("zgroup.sh", "configVersion: v1\nkubernetes: ["+binding("one", "shown", ", queue: z, waitForSynchronization: false, group: g")+", "+
		binding("two", "shown", ", queue: z, waitForSynchronization: false, group: g")+"]", "")
	s.hook("yhold.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "shown", ", queue: z, waitForSynchronization: false, executeHookOnEvent: []")+"]",
		`until [ -e "$TRACE.go" ]; do sleep 0.05; done`)
	s.hook("watcher.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "shown", ", executeHookOnSynchronization: false")+"]", "")
	e, _ := s.start()
	s.until("ready", e.Ready)
	touch := func(name string) {
		if err := os.WriteFile(s.trace+name, nil, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	change := func(number int, text string) {
		before := strings.Count(strings.Join(s.shorts(), " "), "watcher.sh")
		s.apply(text)
		s.until(fmt.Sprintf("the watch has brought change %d", number), func() bool { return strings.Count(strings.Join(s.shorts(), " "), "watcher.sh") > before })
	}
	change(1, configMap("shown", "a", "x: '1'"))
	change(2, configMap("shown", "b", ""))
	touch(".go") // the synchronization of plain.sh begins, and will fail
	s.until("it runs, and the group", func() bool {
		runs := strings.Join(s.shorts(), " ")
		return strings.Contains(runs, "plain.sh maps:Synchronization:3") && strings.Contains(runs, "zgroup.sh")
	})
	change(3, configMap("shown", "a", "x: '2'"))
	touch(".fail")
	s.until("it has failed", func() bool { _, err := os.Stat(s.trace + ".failed"); return err == nil })
	change(4, configMap("shown", "c", ""))
	s.until("it runs again", func() bool { return strings.Contains(strings.Join(s.shorts(), " "), "plain.sh maps:Synchronization:4") })
	change(5, configMap("shown", "d", ""))
	s.until("the last event", func() bool { return strings.Contains(strings.Join(s.shorts(), " "), "plain.sh maps:Event:Added:d") })
	var got []string
	for _, run := range s.shorts() {
		if !strings.HasPrefix(run, "watcher.sh") && run != "zgroup.sh two:Group" {
			got = append(got, run)
		}
	}
	slices.Sort(got)
	want := []string{"first.sh maps:Synchronization:2", "plain.sh maps:Event:Added:d", "plain.sh maps:Synchronization:3", "plain.sh maps:Synchronization:4", "yhold.sh maps:Synchronization:2"}
	if !slices.Equal(got, want) {
		s.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	groups := 0
	for _, run := range s.runs() {
		if strings.HasPrefix(run, "zgroup.sh") {
			if groups++; groups == 1 && !strings.Contains(run, `"x":"1"`) {
				s.Errorf("the group does not begin with what happened while it waited: %s", run)
			}
		}
	}
	if groups > 4 { // one for the synchronization, and one for each change after it
		s.Errorf("the group ran %d times", groups)
	}
}
