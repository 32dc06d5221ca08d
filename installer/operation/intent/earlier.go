package intent

import (
	"encoding/json"
	"path"
)

// What follows is for one release: control planes and agents of an earlier sealift know neither Stage nor Params.

// earlier are the params of the operations that had separate fields.
type earlier struct {
	Index string `json:"index,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// Asked returns the stage and the params of an intent, even of one that an earlier sealift wrote.
func (in Intent) Asked() (stage string, params json.RawMessage) {
	switch {
	case in.Stage != "":
		return in.Stage, in.Params
	case in.Operation == Images:
		return "images/load", []byte(encode(earlier{Index: in.Index}))
	case in.Operation == Balance && in.Move != nil:
		return "load-balancer/" + in.Move.Stage, []byte(encode(earlier{From: in.Move.From, To: in.Move.To}))
	}
	return "", nil
}

// WithEarlier returns an intent with the fields that an agent of an earlier sealift reads.
func (in Intent) WithEarlier() Intent {
	var p earlier
	if (in.Operation == Images || in.Operation == Balance) && json.Unmarshal(in.Params, &p) == nil {
		in.Index = p.Index
		if in.Operation == Balance {
			in.Move = &Move{From: p.From, To: p.To, Stage: path.Base(in.Stage)}
		}
	}
	return in
}
