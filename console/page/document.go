package page

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/plaintext"
)

// maxText is the maximum length of a text from a document, in bytes. Errors of a cluster can be long.
const maxText = 4000

// text is a text of a document. Names, conditions and errors come from clusters and workers: control characters are escaped, and what is
// too long is cut.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*t = clean(s)
	return nil
}

func clean(s string) text {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + " […]"
	}
	var out strings.Builder
	w := plaintext.NewWriter(&out)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return text(out.String())
}

// status is what pages need of 'sealift status -o json'.
type status struct {
	State    text `json:"state"`
	Bundle   text `json:"bundle"`
	Log      text `json:"log"`
	Resume   text `json:"resume"`
	Steps    int  `json:"steps"`
	Finished int  `json:"finished"`
	Failure  *struct {
		Step  text      `json:"step"`
		Time  time.Time `json:"time"`
		Error text      `json:"error"`
		Log   text      `json:"log"`
	} `json:"failure"`
	AddOns   []addOn    `json:"addOns"`
	Nodes    []nodeLine `json:"nodes"`
	Stopped  []text     `json:"stopped"`
	Settings []struct {
		Name text `json:"name"`
		Is   text `json:"is"`
		File text `json:"file"`
	} `json:"settings"`
	Certificates []certificate `json:"certificates"`
	NextRenewal  time.Time     `json:"nextRenewal"`
	Rotation     *struct {
		Since text   `json:"since"`
		Parts []text `json:"parts"`
		Next  text   `json:"next"`
	} `json:"rotation"`
	UnderWay []underWay `json:"underWay"`
	Undo     *struct {
		Leader text `json:"leader"`
	} `json:"undo"`
	Snapshots *struct {
		Every   float64 `json:"everySeconds"`
		Problem text    `json:"problem"`
		Last    *struct {
			Time  time.Time `json:"time"`
			Store text      `json:"store"`
		} `json:"last"`
	} `json:"snapshots"`
	Drill *struct {
		Time     time.Time `json:"time"`
		Snapshot time.Time `json:"snapshot"`
		Passed   bool      `json:"passed"`
	} `json:"drill"`
	Space   []space `json:"space"`
	Sees    text    `json:"sees"`
	Cluster text    `json:"cluster"`
	API     *struct {
		Endpoint text `json:"endpoint"`
		Answers  bool `json:"answers"`
		Ready    bool `json:"ready"`
		Why      text `json:"why"`
	} `json:"api"`
}

type addOn struct {
	Name    text `json:"name"`
	Version text `json:"version"`
	State   text `json:"state"`
	Health  text `json:"health"`
	Why     text `json:"why"`
}

type nodeLine struct {
	Name    text   `json:"name"`
	Roles   []text `json:"roles"`
	Ready   bool   `json:"ready"`
	Why     text   `json:"why"`
	Version text   `json:"version"`
	Address text   `json:"address"`
	Runtime text   `json:"runtime"`
	OS      text   `json:"os"`
	Kernel  text   `json:"kernel"`
}

// certificate is a line of 'sealift certs -o json'.
type certificate struct {
	File      text       `json:"file"`
	Kind      text       `json:"kind"`
	Subject   text       `json:"subject"`
	Issuer    text       `json:"issuer"`
	End       *time.Time `json:"end"`
	Days      *int       `json:"daysLeft"`
	UsedBy    []text     `json:"usedBy"`
	RenewedBy text       `json:"renewedBy"`
	Renewal   *time.Time `json:"renewal"`
	Problem   text       `json:"problem"`
}

type underWay struct {
	Kind   text      `json:"kind"`
	Leader text      `json:"leader"`
	Stage  text      `json:"stage"`
	About  text      `json:"about"`
	Next   text      `json:"next"`
	Waits  bool      `json:"waits"`
	Began  time.Time `json:"began"`
	Failed bool      `json:"failed"`
}

type space struct {
	Path   text   `json:"path"`
	Free   uint64 `json:"freeBytes"`
	Needed uint64 `json:"neededBytes"`
}

// snapshot is a line of 'sealift snapshot list -o json'.
type snapshot struct {
	File    text      `json:"file"`
	Cluster text      `json:"cluster"`
	Node    text      `json:"node"`
	Time    time.Time `json:"time"`
	Size    int64     `json:"size"`
}

// upgrade is 'sealift upgrade status -o json'.
type upgrade struct {
	Paused  bool         `json:"paused"`
	Upgrade upgradeState `json:"upgrade"`
}

type upgradeState struct {
	From   text      `json:"from"`
	To     text      `json:"to"`
	Leader text      `json:"leader"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Phase  text      `json:"phase"`
	Error  text      `json:"error"`
	Nodes  map[text]struct {
		Stage text    `json:"stage"`
		Error text    `json:"error"`
		Took  float64 `json:"took"`
		Away  float64 `json:"away"`
	} `json:"nodes"`
}

// journalLine is a line of 'sealift journal -o json'.
type journalLine struct {
	Time      time.Time     `json:"time"`
	Operation text          `json:"operation"`
	Step      text          `json:"step"`
	Outcome   text          `json:"outcome"`
	Duration  time.Duration `json:"duration"`
	Error     text          `json:"error"`
}

// plan is what 'sealift upgrade --plan -o json' prints.
type plan struct {
	Plan struct {
		From    text   `json:"from"`
		To      text   `json:"to"`
		Stops   []text `json:"stops"`
		Bytes   int64  `json:"bytes"`
		Resumes bool   `json:"resumes"`
		Agents  []text `json:"agents"`
		Changes []struct {
			AddOn   text `json:"addOn"`
			From    text `json:"from"`
			To      text `json:"to"`
			Options bool `json:"options"`
		} `json:"changes"`
		Nodes []struct {
			Name    text `json:"name"`
			Role    text `json:"role"`
			Version text `json:"version"`
			Drained bool `json:"drained"`
		} `json:"nodes"`
	} `json:"plan"`
	Checks []struct {
		Check   text `json:"check"`
		Status  text `json:"status"`
		Message text `json:"message"`
		Hint    text `json:"hint"`
	} `json:"checks"`
}
