"""A classifier of Hugging Face's transformers, with random weights, trained by its Trainer."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from windows import call, going

torch.manual_seed(1)
config = BertConfig(vocab_size=2000, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256)
model = BertForSequenceClassification(config)


class Rows(torch.utils.data.Dataset):
    """Random words, and whether the first is even."""

    def __init__(self):
        self.words = torch.randint(0, 2000, (256, 48))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, row):
        words = self.words[row]
        return {"input_ids": words, "labels": int(words[0]) % 2}


with tempfile.TemporaryDirectory() as folder:
    options = TrainingArguments(
        folder, per_device_train_batch_size=16, num_train_epochs=2, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True
    )
    trainer = Trainer(model, options, train_dataset=Rows(), eval_dataset=Rows())
    for _ in going():
        with call("transformers.Trainer.train"):
            trainer.train()
        with call("transformers.Trainer.evaluate"):
            trainer.evaluate()
