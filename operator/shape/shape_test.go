package shape_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sealift/sealift/operator/shape"
)

func TestCheckNamesEveryMistakeByItsPath(t *testing.T) {
	form := shape.Object(shape.Fields{
		"kind":   shape.Text(),
		"events": shape.List(shape.Word("Added", "Deleted")).Between(1, 2),
		"order":  shape.Integer(),
		"value":  shape.Number(),
		"wait":   shape.Bool(),
		"labels": shape.Map(shape.Text()).OrNull(),
		"object": shape.Any(),
		"free":   shape.Object(shape.Fields{"name": shape.Text()}, "name").Open(),
	}, "kind")
	for _, c := range []struct{ name, in, want string }{
		{"all well", `{"kind":"Pod","events":["Added"],"order":10,"value":1.5,"wait":true,"labels":{"a":"b"},"object":[],"free":{"name":"x","y":1}}`, ""},
		{"a whole number is a number, and 1.0 is whole", `{"kind":"Pod","value":2,"order":1.0}`, ""},
		{"null where it may be", `{"kind":"Pod","labels":null}`, ""},
		{"null where it may not be", `{"kind":null}`, "kind: must be a string, not null"},
		{"missing", `{}`, "kind: is required"},
		{"mistyped", `{"kind":"Pod","evnts":[]}`, `evnts: is a forbidden property; did you mean "events"?`},
		{"two at once, in order", `{"order":1.5,"wait":"yes","kind":"Pod"}`, "order: must be an integer, not a number\nwait: must be a boolean, not a string"},
		{"inside a list", `{"kind":"Pod","events":["Added","Updated"]}`, `events[1]: "Updated" is not one of Added, Deleted`},
		{"too few", `{"kind":"Pod","events":[]}`, "events: needs at least 1 item"},
		{"too many", `{"kind":"Pod","events":["Added","Added","Added"]}`, "events: may have at most 2 items"},
		{"value of a map", `{"kind":"Pod","labels":{"foo":28}}`, "labels.foo: must be a string, not an integer"},
		{"required in an open object", `{"kind":"Pod","free":{}}`, "free.name: is required"},
		{"another kind of document", `[]`, "must be an object, not an array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var value any
			if err := json.Unmarshal([]byte(c.in), &value); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := errors.Join(form.Check(value, "")...); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
