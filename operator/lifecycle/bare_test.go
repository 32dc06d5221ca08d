package lifecycle_test

// testBareFlags: lasting patches of hooks replace bare flags by their own keys. The ConfigMap stays valid: the operator starts again.
func testBareFlags(s *site) {
	s.hook("global/g.sh", "beforeAll: 1", `echo '[{"op":"add","path":"/aEnabled","value":true},{"op":"remove","path":"/cEnabled"}]' > $CONFIG_VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", printValues("VALUES_PATH", ".a"))
	s.hook("modules/b/hooks/h.sh", "beforeHelm: 1", `echo '{"op":"add","path":"/b/name","value":"hook"}' > $CONFIG_VALUES_JSON_PATCH_PATH`)
	s.hook("modules/c/hooks/h.sh", "beforeHelm: 1", "")
	s.hook("modules/d/hooks/h.sh", "beforeHelm: 1", `echo '[]' > $CONFIG_VALUES_JSON_PATCH_PATH`)
	s.config(map[string]any{"a": "false", "b": `"true"`, "c": "true", "d": "true"})
	o := s.start()
	s.idle(o)
	if got, want := asJSON(s.live()), `{"aEnabled":true,"b":{"name":"hook"},"bEnabled":true,"d":true}`; got != want {
		s.Errorf("the ConfigMap is %s, want %s", got, want)
	}
	again, err := s.load()
	if err != nil {
		s.Fatalf("the next start: %v", err)
	}
	if got, err := again.Values("b", true); err != nil || asJSON(got) != `{"name":"hook"}` {
		s.Errorf("after the next start: %s, %v", asJSON(got), err)
	}
	s.config(map[string]any{"a": "mine: 1\n"})
	s.until("an edit is in force", func() bool {
		got, err := o.Values("a", true)
		return err == nil && asJSON(got) == `{"mine":1}`
	})
}
