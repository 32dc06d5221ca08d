package binding

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fileV0 is a configuration without configVersion.
type fileV0 struct {
	Schedule []struct {
		Name         string `json:"name"`
		Crontab      string `json:"crontab"`
		AllowFailure bool   `json:"allowFailure"`
	} `json:"schedule"`
	Kubernetes []kubernetesV0 `json:"onKubernetesEvent"`
}

type kubernetesV0 struct {
	Name              string                `json:"name"`
	Kind              string                `json:"kind"`
	Events            []string              `json:"event"`
	Selector          *metav1.LabelSelector `json:"selector"`
	ObjectName        string                `json:"objectName"`
	NamespaceSelector *struct {
		MatchNames []string `json:"matchNames"`
		Any        bool     `json:"any"`
	} `json:"namespaceSelector"`
	JQFilter     string `json:"jqFilter"`
	AllowFailure bool   `json:"allowFailure"`
}

// eventsV0 are the names that v0 has for events.
var eventsV0 = map[string]Event{"add": Added, "update": Modified, "delete": Deleted}

func (f *fileV0) config(r *reader) *Config {
	c := &Config{Version: "v0"}
	for i, s := range f.Schedule {
		c.Schedules = append(c.Schedules, Schedule{
			common(s.Name, OnSchedule, "", "", s.AllowFailure, nil),
			r.crontab(fmt.Sprintf("schedule[%d].crontab", i), s.Crontab),
		})
	}
	for i := range f.Kubernetes {
		c.Kubernetes = append(c.Kubernetes, f.Kubernetes[i].binding(r, fmt.Sprintf("onKubernetesEvent[%d]", i)))
	}
	return c
}

// binding has no synchronization and no objects: a hook of v0 gets only their names.
func (f *kubernetesV0) binding(r *reader, path string) Kubernetes {
	k := Kubernetes{
		Common: common(f.Name, "onKubernetesEvent", "", "", f.AllowFailure, nil), Kind: f.Kind,
		Filter: r.filter(path+".jqFilter", f.JQFilter), Labels: r.labels(path+".selector", f.Selector),
	}
	for _, event := range f.Events {
		k.Events = append(k.Events, eventsV0[event])
	}
	if f.ObjectName != "" {
		k.Names = []string{f.ObjectName}
	}
	if f.NamespaceSelector != nil && !f.NamespaceSelector.Any {
		k.Namespaces = unique(f.NamespaceSelector.MatchNames)
	}
	return k
}
