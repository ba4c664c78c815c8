// Renders a Helm chart as `helm template` does, with the same template engine and functions:
//
//	render CHART RELEASE NAMESPACE < values.json
//
// prints its manifests. It knows what charts without subcharts need: .Values, .Release, .Chart,
// include, required, toYaml and the functions of sprig.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, "render:", err)
	os.Exit(1)
}

func render() error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: render CHART RELEASE NAMESPACE < values.json")
	}
	chartFolder, release, namespace := os.Args[1], os.Args[2], os.Args[3]
	var values map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(chartFolder, "Chart.yaml"))
	if err != nil {
		return err
	}
	var about struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal(text, &about); err != nil {
		return err
	}

	templates := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	templates.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := templates.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"required": func(message string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", message)
			}
			return value, nil
		},
		"toYaml": func(value interface{}) (string, error) {
			out, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(out), "\n"), err
		},
	})
	paths, err := filepath.Glob(filepath.Join(chartFolder, "templates", "*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := templates.New(filepath.Base(path)).Parse(string(text)); err != nil {
			return err
		}
	}

	data := map[string]interface{}{
		"Values":  values,
		"Chart":   about,
		"Release": map[string]string{"Name": release, "Namespace": namespace},
	}
	for _, path := range paths {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, filepath.Base(path), data); err != nil {
			return err
		}
		if strings.HasSuffix(path, ".yaml") {
			fmt.Printf("---\n%s", out.String())
		}
	}
	return nil
}

func main() {
	if err := render(); err != nil {
		fail(err)
	}
}
