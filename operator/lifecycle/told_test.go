package lifecycle_test

import "strings"

// testNoChart: required values of a chart are checked only for modules with a chart. The other one would never have the values.
func testNoChart(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	for _, name := range []string{"a", "b"} {
		s.file("modules/"+name+"/openapi/values.yaml", "type: object\nx-required-for-helm: [needed]\nproperties: {needed: {type: string}, other: {type: string}}\n")
		s.file("global/openapi/values.yaml", "type: object\nx-required-for-helm: [domain]\nproperties: {domain: {type: string}}\n")
	}
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1\nafterHelm: 1", "")
	s.file("modules/b/templates/x.yaml", "")
	o := s.run()
	s.until("the module without a chart has run, and the other one waits for its values", func() bool {
		return strings.Contains(s.log.String(), "run module b: values before Helm: ")
	})
	s.traced("a/hooks/h.sh beforeHelm", "a/hooks/h.sh afterHelm")
	if text := s.log.String(); strings.Contains(text, "run module a: ") || !strings.Contains(text, "b.needed in body is required") || !strings.Contains(text, "global.domain in body is required") {
		s.Error(text)
	}
	s.config(map[string]any{"b": "needed: x", "global": "domain: example.org"})
	s.until("it has run", o.Ready)
}

// testTold: unknown keys of the ConfigMap are reported with the nearest key, at the start and after an edit, and so are the reasons of
// enabled scripts (corrections 11 and 42).
func testTold(s *site) {
	s.file("modules/values.yaml", "ingressEnabled: true\nstorageEnabled: true\n")
	s.file("modules/1-ingress/enabled", "#!/bin/bash\necho 'no nodes' > $MODULE_ENABLED_REASON; echo false > $MODULE_ENABLED_RESULT\n")
	s.file("modules/2-storage/enabled", "#!/bin/bash\necho 'three disks' > $MODULE_ENABLED_REASON; echo true > $MODULE_ENABLED_RESULT\n")
	s.config(map[string]any{"ingres": "a: 1", "ingress": "a: 1", "zzzEnabled": "true", "global": "a: 1", "oldMaintenance": "NoResourceReconciliation"})
	o := s.start()
	count := func(text string) int { return strings.Count(s.log.String(), text) }
	for _, want := range []string{
		`msg="the ConfigMap has keys of no module; they have no effect"`, `keys="ingres (did you mean ingress?), old, zzz"`,
		`msg="an enabled script gave its reason" module=ingress enabled=false reason="no nodes"`, `msg="an enabled script gave its reason" module=storage enabled=true reason="three disks"`,
	} {
		if count(want) != 1 {
			s.Errorf("the log has %q %d times:\n%s", want, count(want), s.log)
		}
	}
	var why []string
	for _, m := range o.Modules() {
		why = append(why, m.Why)
	}
	if got := strings.Join(why, "; "); got != "its enabled script says false: no nodes; values.yaml beside the modules says true: three disks" {
		s.Error(got)
	}
	s.config(map[string]any{"storage": "b: 1"}) // an edit that changes none of them
	s.config(map[string]any{"global": "a: 2"})
	s.until("all has run again", func() bool { return count("all modules have run") == 2 })
	if count("keys of no module") != 1 || count("gave its reason") != 2 {
		s.Errorf("it is told again:\n%s", s.log)
	}
	s.config(map[string]any{"storge": "b: 1"})
	s.until("the new key is told", func() bool { return count(`old, storge (did you mean storage?), zzz"`) == 1 })
}
