package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/spec"
)

// drop removes an option of an add-on.
func (u *upgrade) drop(a *spec.AddOn, option, why string) {
	if value, set := a.Options[option]; set {
		delete(a.Options, option)
		u.change(a.Pos, a.Key+"."+option, fmt.Sprint(value), "", why)
	}
}

// options leaves out options that a rule refuses.
func (u *upgrade) options() {
	for _, r := range rules() {
		at := u.at(r.key)
		if _, _, applies := (&checker{installer: u.installer}).applies(r); r.option == "" || at < 0 || !applies {
			continue
		}
		a := &u.installer.AddOns[at]
		if r.atLeast > 0 {
			u.change(a.Pos, r.key+"."+r.option, fmt.Sprint(a.Options[r.option]), strconv.FormatInt(r.atLeast, 10), r.why)
			a.Options[r.option] = r.atLeast
			continue
		}
		u.drop(a, r.option, r.why+"; "+r.fix)
		if r.option == "isCstorEnabled" {
			u.localVolumes(a)
		}
	}
}

// networks leaves out networks that cannot be read.
func (u *upgrade) networks() {
	for _, n := range networkOptions() {
		if _, _, unreadable := (&checker{installer: u.installer}).unreadable(n); unreadable {
			u.drop(&u.installer.AddOns[u.at(n.key)], n.option, "it is not a network; Sealift chooses one")
		}
	}
}

// localVolumes makes OpenEBS provide its StorageClass from local disks in place of cStor.
func (u *upgrade) localVolumes(a *spec.AddOn) {
	class, _ := a.Options["cstorStorageClassName"].(string)
	u.drop(a, "cstorStorageClassName", "openebs.localPVStorageClassName replaces it (Sealift moves no data)")
	if a.Options["isLocalPVEnabled"] == true {
		return
	}
	if class == "" {
		class = "default"
	}
	a.Options["isLocalPVEnabled"], a.Options["localPVStorageClassName"] = true, class
	u.change(a.Pos, "openebs.localPVStorageClassName", "", class, "in place of cStor")
}

// needs switches off what needs a capability that no add-on has.
func (u *upgrade) needs() {
	for _, n := range needs() {
		about, unmet := (&checker{installer: u.installer}).unmet(n)
		switch at := u.at(n.key); {
		case !unmet:
		case n.unless != "" && at >= 0:
			a := &u.installer.AddOns[at]
			if a.Options == nil {
				a.Options = spec.Options{}
			}
			a.Options[n.unless] = true
			u.change(a.Pos, n.key+"."+n.unless, "", "true", n.why)
		case n.option != "":
			delete(about.options, n.option)
			u.change(about.pos, n.key+"."+n.option, "true", "", n.why+"; "+n.fix)
		}
	}
}

// idle leaves out options without effect, and then sections without options.
func (u *upgrade) idle() {
	for _, o := range u.installer.Idle() {
		key, option, _ := strings.Cut(o.Name, ".")
		options := u.installer.Section(key).Options
		if at := u.at(key); at >= 0 {
			options = u.installer.AddOns[at].Options
		}
		value := fmt.Sprint(options[option])
		delete(options, option)
		u.change(o.Pos, o.Name, value, "", "it has no effect; "+o.Hint)
	}
	u.installer.Sections = slices.DeleteFunc(u.installer.Sections, func(s spec.Section) bool { return len(s.Options) == 0 })
}
