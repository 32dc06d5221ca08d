package record_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sealift/sealift/installer/operation/record"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem}, Data: data}
}

func TestStoreKeepsRecordOfEachKind(t *testing.T) {
	client := fake.NewClientset()
	s := record.Store{Client: client}
	one := record.Record{ID: "1", Kind: "clock", Leader: "host-1", Attempt: 1, Params: json.RawMessage(`{"to":"10.0.0.1"}`), Stage: "use", About: "a", Next: "n"}
	one = one.With("host-2", record.Node{State: record.Failed, Error: "no"})
	two := record.Record{ID: "2", Kind: record.Images, Waits: true}
	put := func(r record.Record) {
		t.Helper()
		if err := s.Change(t.Context(), func(all record.All) error {
			all[r.Kind] = r
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(one)
	put(two)
	all, err := s.Read(t.Context())
	if diff := cmp.Diff(record.All{"clock": one, record.Images: two}, all); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	refused := errors.New("no")
	if err := s.Change(t.Context(), func(all record.All) error {
		clear(all)
		return refused
	}); !errors.Is(err, refused) {
		t.Error(err)
	}
	if all, err = s.Read(t.Context()); len(all) != 2 || err != nil {
		t.Errorf("a change that was refused left %v, %v", all, err)
	}
	if err := s.Change(t.Context(), func(all record.All) error {
		clear(all)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), record.ConfigMap, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap outlives the last record: %v", err)
	}
}

// TestChangeSeesWhatAnotherProcessWrote has another process begin something between the look and the write.
func TestChangeSeesWhatAnotherProcessWrote(t *testing.T) {
	client := fake.NewClientset(configMap(record.ConfigMap, map[string]string{"clock": `{"id":"1"}`}))
	others := 0
	client.PrependReactor("update", "configmaps", func(kubetesting.Action) (bool, runtime.Object, error) {
		if others++; others > 1 {
			return false, nil, nil
		}
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), configMap(record.ConfigMap, map[string]string{"clock": `{"id":"2"}`}), metav1.NamespaceSystem); err != nil {
			t.Fatal(err)
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), record.ConfigMap, errors.New("changed"))
	})
	var seen []string
	err := record.Store{Client: client}.Change(t.Context(), func(all record.All) error {
		seen = append(seen, all["clock"].ID)
		all["clock"] = record.Record{ID: "3", Kind: "clock"}
		return nil
	})
	if diff := cmp.Diff([]string{"1", "2"}, seen); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestRecordsOfEarlierSealiftAreTakenOver reads what each operation wrote before there was one ConfigMap.
func TestRecordsOfEarlierSealiftAreTakenOver(t *testing.T) {
	client := fake.NewClientset(
		configMap("sealift-rotation", map[string]string{"id": "20260101T000000Z", "leader": "host-3", "parts": "cluster etcd"}),
		configMap("sealift-encryption", map[string]string{"key": "key-2-aa", "leader": "host-1"}),
		configMap("sealift-load-balancer", map[string]string{"change": `{"id":"1","from":"10.0.0.1:6443","to":"10.0.0.2:6443","back":false,"moved":true}`}),
		configMap("sealift-upgrade", map[string]string{"state.json": `{"upgrade":"u","from":"1.35.4","to":"1.36.3","phase":"nodes","leader":"host-1"}`, "paused": "true"}))
	s := record.Store{Client: client}
	all, err := s.Read(t.Context())
	if err != nil || len(all) != 4 || all[record.CAs].ID != "20260101T000000Z" || all[record.CAs].Leader != "host-3" || all[record.Keys].ID != "key-2-aa" || !all[record.LoadBalancer].Waits || all[record.Upgrade].Stage != "upgrade/control-planes" || !all[record.Upgrade].Paused {
		t.Fatalf("%+v, %v", all, err)
	}
	var move struct{ From, To string }
	if err := all[record.LoadBalancer].Decode(&move); err != nil || move.To != "10.0.0.2:6443" {
		t.Errorf("%+v, %v", move, err)
	}
	if err := s.Change(t.Context(), func(all record.All) error {
		all[record.CAs] = all[record.CAs].In("sign")
		delete(all, record.Keys)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"sealift-rotation": false, "sealift-encryption": false, "sealift-load-balancer": true, "sealift-upgrade": true} {
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{}); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err = s.Read(t.Context()); err != nil || len(all) != 3 || all[record.CAs].Stage != "sign" {
		t.Errorf("%+v, %v", all, err)
	}
	// a process that was killed between both writes left the earlier one
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), configMap("sealift-rotation", map[string]string{"id": "20260101T000000Z"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(t.Context(), func(all record.All) error {
		delete(all, record.CAs)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if all, err = s.Read(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("an ended operation came back: %+v, %v", all, err)
	}
}

func TestDamagedRecordNamesItsConfigMap(t *testing.T) {
	for _, m := range []*corev1.ConfigMap{
		configMap(record.ConfigMap, map[string]string{"clock": "{"}), configMap("sealift-load-balancer", map[string]string{"change": "{}"}), configMap("sealift-upgrade", map[string]string{}),
	} {
		if _, err := (record.Store{Client: fake.NewClientset(m)}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "ConfigMap kube-system/"+m.Name) {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}
