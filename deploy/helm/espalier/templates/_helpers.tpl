{{- /* The labels of a component: (list . "controller") */ -}}
{{- define "espalier.labels" -}}
app.kubernetes.io/name: espalier-{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}
