// One call of gophercloud's orchestration package, with what it understood as JSON.
//
// Arguments: the address of the service, the call, and the call's own.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/buildinfo"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/resourcetypes"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/stackevents"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/stackresources"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/stacks"
	"github.com/gophercloud/gophercloud/openstack/orchestration/v1/stacktemplates"
	"github.com/gophercloud/gophercloud/pagination"
)

type call func(service *gophercloud.ServiceClient, words []string) (interface{}, error)

var calls = map[string]call{
	"abandon": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Abandon(service, words[0], words[1]).Extract()
	},
	"adopt": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Adopt(service, stacks.AdoptOpts{
			AdoptStackData: words[1], Name: words[0], Timeout: 10, TemplateOpts: template(words[2]),
		}).Extract()
	},
	"build": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return buildinfo.Get(service).Extract()
	},
	"create": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Create(service, stacks.CreateOpts{
			Name: words[0], TemplateOpts: template(words[1]), Parameters: parameters(words[2]), Timeout: 10,
			Tags: []string{"first", "second"}, EnvironmentOpts: environment(words[3]),
		}).Extract()
	},
	"delete": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return nil, stacks.Delete(service, words[0], words[1]).ExtractErr()
	},
	"event": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stackevents.Get(service, words[0], words[1], words[2], words[3]).Extract()
	},
	"events": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return ofEachPage(stackevents.List(service, words[0], words[1], stackevents.ListOpts{Limit: 2}), events)
	},
	"events of resource": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		pages := stackevents.ListResourceEvents(
			service, words[0], words[1], words[2], stackevents.ListResourceEventsOpts{Limit: 2},
		)
		return ofEachPage(pages, events)
	},
	"find": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Find(service, words[0]).Extract()
	},
	"find events": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stackevents.Find(service, words[0]).Extract()
	},
	"find resources": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stackresources.Find(service, words[0]).Extract()
	},
	"get": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Get(service, words[0], words[1]).Extract()
	},
	"list": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		pages := stacks.List(service, stacks.ListOpts{Tags: words[0], SortKey: stacks.SortName})
		return ofEachPage(pages, func(page pagination.Page) ([]interface{}, error) {
			found, err := stacks.ExtractStacks(page)
			return all(len(found), func(n int) interface{} { return found[n] }), err
		})
	},
	"mark": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return nil, stackresources.MarkUnhealthy(service, words[0], words[1], words[2],
			stackresources.MarkUnhealthyOpts{MarkUnhealthy: true, ResourceStatusReason: words[3]}).ExtractErr()
	},
	"metadata": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stackresources.Metadata(service, words[0], words[1], words[2]).Extract()
	},
	"patch": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return nil, stacks.UpdatePatch(service, words[0], words[1], stacks.UpdateOpts{
			Parameters: parameters(words[2]),
		}).ExtractErr()
	},
	"preview": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacks.Preview(service, stacks.PreviewOpts{
			Name: words[0], Timeout: 10, TemplateOpts: template(words[1]), Parameters: parameters(words[2]),
		}).Extract()
	},
	"resource": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stackresources.Get(service, words[0], words[1], words[2]).Extract()
	},
	"resources": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		pages := stackresources.List(service, words[0], words[1], stackresources.ListOpts{Depth: 2})
		return ofEachPage(pages, func(page pagination.Page) ([]interface{}, error) {
			found, err := stackresources.ExtractResources(page)
			return all(len(found), func(n int) interface{} { return found[n] }), err
		})
	},
	"template": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		text, err := stacktemplates.Get(service, words[0], words[1]).Extract()
		return json.RawMessage(text), err
	},
	"type": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return resourcetypes.GetSchema(service, words[0]).Extract()
	},
	"types": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return resourcetypes.List(service, nil).Extract()
	},
	"update": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return nil, stacks.Update(service, words[0], words[1], stacks.UpdateOpts{
			TemplateOpts: template(words[2]), Parameters: parameters(words[3]),
		}).ExtractErr()
	},
	"validate": func(service *gophercloud.ServiceClient, words []string) (interface{}, error) {
		return stacktemplates.Validate(service, stacktemplates.ValidateOpts{Template: words[0]}).Extract()
	},
}

func template(text string) *stacks.Template {
	made := new(stacks.Template)
	made.Bin = []byte(text)
	return made
}

func environment(text string) *stacks.Environment {
	made := new(stacks.Environment)
	made.Bin = []byte(text)
	return made
}

func parameters(text string) map[string]interface{} {
	var given map[string]interface{}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		log.Fatal(err)
	}
	return given
}

func events(page pagination.Page) ([]interface{}, error) {
	found, err := stackevents.ExtractEvents(page)
	return all(len(found), func(n int) interface{} { return found[n] }), err
}

func all(number int, one func(n int) interface{}) []interface{} {
	found := []interface{}{}
	for n := 0; n < number; n++ {
		found = append(found, one(n))
	}
	return found
}

func ofEachPage(pages pagination.Pager, read func(pagination.Page) ([]interface{}, error)) (interface{}, error) {
	found := []interface{}{}
	err := pages.EachPage(func(page pagination.Page) (bool, error) {
		more, err := read(page)
		found = append(found, more...)
		return true, err
	})
	return found, err
}

func main() {
	log.SetFlags(0)
	provider := &gophercloud.ProviderClient{HTTPClient: http.Client{}}
	service := &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: os.Args[1], Type: "orchestration"}
	answer, err := calls[os.Args[2]](service, os.Args[3:])
	if err != nil {
		log.Fatalf("%T: %v", err, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}
