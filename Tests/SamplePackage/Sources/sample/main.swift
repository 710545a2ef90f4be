import MQTTTraversal

print("a package that only imports MQTTTraversal builds and runs")
